# SPDX-License-Identifier: GPL-2.0
"""The facts of each driver family that gpurt relies on: an expression of gpurt's code, and one of the driver's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RM = ROOT / "userlib/nvidia/rm.h"


@dataclass(frozen=True)
class Fact:
    """Two values that must be equal.  `ours` is an expression, or the value itself if gpurt's C code lacks it."""

    name: str
    ours: str | int
    theirs: str


#: Constants, as `ours theirs`.
RM_NUMBERS = """
RM_IOCTL_TYPE           NV_IOCTL_MAGIC
RM_NR_FREE              NV_ESC_RM_FREE
RM_NR_CONTROL           NV_ESC_RM_CONTROL
RM_NR_ALLOC             NV_ESC_RM_ALLOC
RM_NR_DUP               NV_ESC_RM_DUP_OBJECT
RM_NR_TRANSFER          NV_ESC_IOCTL_XFER_CMD
RM_NR_IDLE              NV_ESC_RM_IDLE_CHANNELS
RM_CLASS_DEVICE         NV01_DEVICE_0
RM_CLASS_SUBDEVICE      NV20_SUBDEVICE_0
RM_CLASS_TSG            KEPLER_CHANNEL_GROUP_A
RM_CLASS_GPU_INSTANCE   AMPERE_SMC_PARTITION_REF
RM_CLASS_COMPUTE_INSTANCE   AMPERE_SMC_EXEC_PARTITION_REF
RM_DEVICE_INSTANCE_AT   offsetof(NV0080_ALLOC_PARAMETERS, deviceId)
RM_GPU_INSTANCE_AT      offsetof(NVC637_ALLOCATION_PARAMETERS, swizzId)
RM_TSG_ENGINE_AT        offsetof(NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS, engineType)
A06C_GPFIFO_SCHEDULE    NVA06C_CTRL_CMD_GPFIFO_SCHEDULE
A06C_SET_TIMESLICE      NVA06C_CTRL_CMD_SET_TIMESLICE
A06C_GET_TIMESLICE      NVA06C_CTRL_CMD_GET_TIMESLICE
A06C_PREEMPT            NVA06C_CTRL_CMD_PREEMPT
A06F_GPFIFO_SCHEDULE    NVA06F_CTRL_CMD_GPFIFO_SCHEDULE
C0080_IDLE_CHANNELS     NV0080_CTRL_CMD_FIFO_IDLE_CHANNELS
C2080_SET_PREEMPTION    NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE
C2080_BIND_PREEMPTION   NV2080_CTRL_CMD_GR_CTXSW_PREEMPTION_BIND
C2080_BIND_PM           NV2080_CTRL_CMD_GR_CTXSW_PM_BIND
C2080_BIND_ZCULL        NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND
C2080_PM_MODE           NV2080_CTRL_CMD_GR_CTXSW_PM_MODE
C2080_SMPC_MODE         NV2080_CTRL_CMD_GR_CTXSW_SMPC_MODE
C2080_ZCULL_MODE        NV2080_CTRL_CMD_GR_CTXSW_ZCULL_MODE
C0080_SET_PROPERTIES    NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES
C506F_RESET_CHANNEL     NV506F_CTRL_CMD_RESET_ISOLATED_CHANNEL
C83DE_RESUME_CONTEXT    NV83DE_CTRL_CMD_DEBUG_RESUME_CONTEXT
C2080_DISABLE_CHANNELS  NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS
RM_CHANNELS_MAX         NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES
C0000_GET_ATTACHED_IDS  NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS
C0000_GET_ID_INFO       NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2
C0000_GET_PCI_INFO      NV0000_CTRL_CMD_GPU_GET_PCI_INFO
RM_ATTACHED_MAX         NV0000_CTRL_GPU_MAX_ATTACHED_GPUS
RM_NO_GPU_ID            NV0000_CTRL_GPU_INVALID_ID
UVM_REGISTER_GPU_VASPACE    UVM_REGISTER_GPU_VASPACE
UVM_UNREGISTER_GPU_VASPACE  UVM_UNREGISTER_GPU_VASPACE
UVM_UNREGISTER_GPU          UVM_UNREGISTER_GPU
"""
#: Values of macros in rm.h for the driver's constants, and the sizes of single values that the library assumes.
RM_VALUES = """
1 RM_CLASS_IS_ROOT(NV01_ROOT)
1 RM_CLASS_IS_ROOT(NV01_ROOT_NON_PRIV)
1 RM_CLASS_IS_ROOT(NV01_ROOT_CLIENT)
1 RM_ENGINE_IS_GRAPHICS(NV2080_ENGINE_TYPE_GR0)
1 RM_ENGINE_IS_GRAPHICS(NV2080_ENGINE_TYPE_GR7)
0 RM_ENGINE_IS_GRAPHICS(NV2080_ENGINE_TYPE_COPY0)
8 sizeof(NVA06C_CTRL_TIMESLICE_PARAMS)
"""
#: Structures, as `ours theirs:` and members `ours=theirs`.  With `part` the driver's structure may be larger.
RM_STRUCTURES = """
rm_free NVOS00_PARAMETERS: client=hRoot parent=hObjectParent object=hObjectOld status=status
rm_control NVOS54_PARAMETERS: client=hClient object=hObject cmd=cmd flags=flags params=params size=paramsSize
  status=status
rm_alloc NVOS21_PARAMETERS: client=hRoot parent=hObjectParent object=hObjectNew class=hClass params=pAllocParms
  size=paramsSize status=status
rm_alloc_access NVOS64_PARAMETERS: client=hRoot parent=hObjectParent object=hObjectNew class=hClass params=pAllocParms
  rights=pRightsRequested size=paramsSize flags=flags status=status
rm_dup NVOS55_PARAMETERS: client=hClient parent=hParent object=hObject source_client=hClientSrc source=hObjectSrc
  flags=flags status=status
rm_transfer nv_ioctl_xfer_t: number=cmd size=size address=ptr
rm_schedule NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS part: enable=bEnable skip_submit=bSkipSubmit
rm_schedule NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS part: enable=bEnable skip_submit=bSkipSubmit
rm_preempt NVA06C_CTRL_PREEMPT_PARAMS: wait=bWait manual_timeout=bManualTimeout timeout_us=timeoutUs
rm_attached_ids NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS: ids=gpuIds
rm_id_info NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS: id=gpuId device=deviceInstance
rm_pci_info NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS: id=gpuId domain=domain bus=bus slot=slot
rm_disable_channels NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS: disable=bDisable count=numChannels
  only_scheduling=bOnlyDisableScheduling rewind=bRewindGpPut event=pRunlistPreemptEvent clients=hClientList
  channels=hChannelList
"""
KFD_STRUCTURES = """
kfd_create_queue struct~kfd_ioctl_create_queue_args part: ring=ring_base_address write_pointer=write_pointer_address
  read_pointer=read_pointer_address doorbell=doorbell_offset ring_size=ring_size gpu=gpu_id type=queue_type
  percentage=queue_percentage priority=queue_priority queue=queue_id eop=eop_buffer_address eop_size=eop_buffer_size
  save=ctx_save_restore_address save_size=ctx_save_restore_size stack_size=ctl_stack_size
kfd_destroy_queue struct~kfd_ioctl_destroy_queue_args: queue=queue_id
kfd_update_queue struct~kfd_ioctl_update_queue_args: ring=ring_base_address queue=queue_id ring_size=ring_size
  percentage=queue_percentage priority=queue_priority
kfd_cu_mask struct~kfd_ioctl_set_cu_mask_args: queue=queue_id bits=num_cu_mask address=cu_mask_ptr
"""
NVGPU_REQUESTS = """
OPEN_TSG        G NVGPU_GPU_IOCTL_OPEN_TSG
OPEN_CHANNEL    G NVGPU_GPU_IOCTL_OPEN_CHANNEL
TSG_BIND        T NVGPU_TSG_IOCTL_BIND_CHANNEL
TSG_BIND_EX     T NVGPU_TSG_IOCTL_BIND_CHANNEL_EX
CHANNEL_WAIT    H NVGPU_IOCTL_CHANNEL_WAIT
CHANNEL_OPEN    H NVGPU_IOCTL_CHANNEL_OPEN
"""
KFD_REQUESTS = """
KFD_CREATE_QUEUE    K AMDKFD_IOC_CREATE_QUEUE
KFD_DESTROY_QUEUE   K AMDKFD_IOC_DESTROY_QUEUE
KFD_UPDATE_QUEUE    K AMDKFD_IOC_UPDATE_QUEUE
KFD_SET_CU_MASK     K AMDKFD_IOC_SET_CU_MASK
"""
KFD_HEADERS = ("include/uapi/linux/kfd_ioctl.h", "include/linux/kfd_ioctl.h")
DRM_HEADER = "include/uapi/drm/amdgpu_drm.h"
USERQ_NUMBERS = """
USERQ           DRM_COMMAND_BASE+DRM_AMDGPU_USERQ
USERQ_CREATE    AMDGPU_USERQ_OP_CREATE
USERQ_FREE      AMDGPU_USERQ_OP_FREE
"""
USERQ_STRUCTURE = "userq struct~drm_amdgpu_userq_in part: op=op queue=queue_id"
#: The structures' members in which nvgpu returns a new descriptor.
NVGPU_DESCRIPTORS = ("nvgpu_gpu_open_tsg_args tsg_fd", "nvgpu_gpu_open_channel_args channel_fd",
                     "nvgpu_channel_open_args channel_fd")  # fmt: skip
HINT_CALLS = "GET_TSGS GET_TSGS_BY_PID TSG_GET_PARAMS TSG_SET_TIMESLICE TSG_SET_RUNLIST_INTERLEAVE GET_TSG PUT_TSG"
HINTS = {
    "get_tsgs_args": ("_All", "size=size buffer=buffer"),
    "get_tsgs_by_pid_args": ("_ByPid", "pid=pid size=size buffer=buffer"),
    "tsg_get_params_args": ("_Params", "tsg=tsgid slice=timeslice level=runlist_interleave "
                            "graphics=graphics_preempt_mode compute=compute_preempt_mode pid=pid"),
    "tsg_timeslice_args": ("_Set", "tsg=tsgid value=timeslice"),
    "tsg_runlist_interleave_args": ("_Set", "tsg=tsgid value=runlist_interleave"),
    "tsg_refcount_args": ("_Number", "value=tsgid"),
}  # fmt: skip


def numbers(text: str) -> Iterator[Fact]:
    """Constants of both sides."""
    for line in text.strip().splitlines():
        ours, theirs = line.split(maxsplit=1)
        yield Fact(ours, ours, theirs)


def structures(text: str) -> Iterator[Fact]:
    """Offsets and sizes of members, and sizes of whole structures."""
    for line in text.strip().replace("\n ", " ").splitlines():
        head, _, members = line.partition(":")
        name, theirs, *part = head.split()
        ours, theirs = f"struct {name}", theirs.replace("~", " ")
        if not part:
            yield Fact(f"sizeof({name})", f"sizeof({ours})", f"sizeof({theirs})")
        for pair in members.split():
            our, _, their = pair.partition("=")
            yield Fact(f"offsetof({name}, {our})", f"offsetof({ours}, {our})", f"offsetof({theirs}, {their})")
            yield Fact(f"sizeof({name}.{our})", f"sizeof((({ours} *)0)->{our})", f"sizeof((({theirs} *)0)->{their})")


def requests(text: str) -> Iterator[Fact]:
    """Types and numbers of requests."""
    for line in text.strip().splitlines():
        ours, kind, theirs = line.split()
        yield Fact(ours, ours, f"_IOC_NR({theirs})")
        yield Fact(f"{ours}: type", ord(kind), f"_IOC_TYPE({theirs})")


def nvidia(tree: Path, major: int) -> Iterator[Fact]:
    """Facts of userlib/nvidia/rm.h, and of the UVM driver's calls in userlib/preload/nvidia_rm.c."""
    yield from numbers(RM_NUMBERS)
    for line in RM_VALUES.strip().splitlines():
        value, theirs = line.split(maxsplit=1)
        yield Fact(theirs, int(value), theirs)
    yield from structures(RM_STRUCTURES)
    size = f"({major} < RM_SCHEDULE_LONG_SINCE ? RM_SCHEDULE_SHORT : sizeof(struct rm_schedule))"
    for who in ("NVA06C", "NVA06F"):
        yield Fact(f"sizeof(rm_schedule, {who})", size, f"sizeof({who}_CTRL_GPFIFO_SCHEDULE_PARAMS)")
    for status in re.findall(r"^#define RM_STATUS_(\w+)", RM.read_text(), re.M):
        yield Fact(f"RM_STATUS_{status}", f"RM_STATUS_{status}", "NV_OK" if status == "OK" else f"NV_ERR_{status}")
    yield from classes(tree)
    yield from channel_calls(tree)


def channel_calls(tree: Path) -> Iterator[Fact]:
    """Numbers of calls that enable channels: those that the release's headers have, since releases differ."""
    known = "GPFIFO_SCHEDULE|RESET_CHANNEL|FIFO_START_SELECTED_CHANNELS|GR_CTXSW_SETUP_BIND"
    wanted = rf"^#define\s+(NV\w+_CTRL_CMD_({known}))\s+\((0x\w+)\)"
    alone = {"FIFO_START_SELECTED_CHANNELS": "C0080_START_CHANNELS", "GR_CTXSW_SETUP_BIND": "C2080_BIND_SETUP"}
    for header in sorted((tree / "src/common/sdk/nvidia/inc/ctrl").rglob("ctrl*.h")):
        for name, what, number in re.findall(wanted, header.read_text(), re.M):
            if what in alone:
                yield Fact(alone[what], alone[what], number)
            elif not name.startswith("NVA06C"):  # that is a group's call
                macro = f"RM_IS_CHANNEL_{what.removeprefix('GPFIFO_').removesuffix('_CHANNEL')}"
                yield Fact(f"{macro}({name})", 1, f"{macro}({number})")


def classes(tree: Path) -> Iterator[Fact]:
    """Classes that gpurt takes for channels or compute objects: the same that the headers name as such."""
    for header in sorted((tree / "src/common/sdk/nvidia/inc/class").glob("cl*.h")):
        for name, number in re.findall(r"^#define\s+(\w+)\s+\(?(0x[0-9a-fA-F]{4,8})U?\)?\b", header.read_text(), re.M):
            # PHYSICAL_CHANNEL_GPFIFO: RM allocates none (resource_list.h).
            if header.stem[2:].lower() != f"{int(number, 16):04x}" or name == "PHYSICAL_CHANNEL_GPFIFO":
                continue
            for what, pattern in (("CHANNEL", r"\w+_CHANNEL_GPFIFO(_\w)?"), ("COMPUTE", r"\w+_COMPUTE_\w")):
                expected = int(bool(re.fullmatch(pattern, name)))
                yield Fact(f"RM_CLASS_IS_{what}({name})", f"RM_CLASS_IS_{what}({number})", str(expected))


def nvgpu(tree: Path, major: int) -> Iterator[Fact]:
    """Facts of userlib/preload/nvgpu_tsg.c, and of the scheduling node in pycontrol/link/hints.py."""
    del major
    from pycontrol.link import hints

    yield from requests(NVGPU_REQUESTS)
    for name in ("TSG_ENABLE", "TSG_DISABLE", "TSG_PREEMPT"):
        yield Fact(f"{name}: request", f"_IO('T', {name})", f"NVGPU_IOCTL_{name}")
    if "GET_SHARE_TOKEN" in (tree / "include/uapi/linux/nvgpu.h").read_text():  # from r36.2 on
        yield from requests("TSG_SHARE T NVGPU_TSG_IOCTL_GET_SHARE_TOKEN")
        yield Fact("OPEN_TSG_SHARED", "OPEN_TSG_SHARED", "NVGPU_GPU_IOCTL_OPEN_TSG_FLAGS_SHARE")
        yield Fact("offsetof(nvgpu_gpu_open_tsg_args, flags)", 4, "offsetof(struct nvgpu_gpu_open_tsg_args, flags)")
    for one in NVGPU_DESCRIPTORS:
        what, member = one.split()
        yield Fact(f"offsetof({what}, {member})", 0, f"offsetof(struct {what}, {member})")
        yield Fact(f"sizeof({what}.{member})", 4, f"sizeof(((struct {what} *)0)->{member})")
    for name in HINT_CALLS.split():
        yield Fact(f"hints.{name}: request", getattr(hints, name), f"NVGPU_SCHED_IOCTL_{name}")
    for theirs, (ours, members) in HINTS.items():
        for pair in members.split():
            our, _, their = pair.partition("=")
            field, where = getattr(getattr(hints, ours), our), f"struct nvgpu_sched_{theirs}"
            yield Fact(f"offsetof(hints.{theirs}, {our})", field.offset, f"offsetof({where}, {their})")
            yield Fact(f"sizeof(hints.{theirs}.{our})", field.size, f"sizeof((({where} *)0)->{their})")
    for level in hints.HintLevel:
        yield Fact(f"hints.HintLevel.{level.name}", level.value, f"NVGPU_RUNLIST_INTERLEAVE_LEVEL_{level.name}")


def has(header: Path, name: str) -> bool:
    """Whether a header, which may be missing, defines that name."""
    return header.is_file() and f"#define {name}" in header.read_text()


def kfd(tree: Path, major: int) -> Iterator[Fact]:
    """Facts of userlib/preload/kfd.h.  Additions of newer releases are compared if the release has them."""
    del major
    yield from requests(KFD_REQUESTS)
    if any(has(tree / one, "AMDKFD_IOC_CREATE_PROCESS") for one in KFD_HEADERS):  # from 7.0 on
        yield from requests("KFD_CREATE_PROCESS K AMDKFD_IOC_CREATE_PROCESS")
    if has(tree / DRM_HEADER, "DRM_AMDGPU_USERQ"):  # from 6.16 on
        yield from numbers(USERQ_NUMBERS)
        yield from structures(USERQ_STRUCTURE)
    for name, what in (("UPDATE_QUEUE", "update_queue"), ("SET_CU_MASK", "cu_mask")):
        yield Fact(f"KFD_{name}: request", f"_IOW('K', KFD_{name}, struct kfd_{what})", f"AMDKFD_IOC_{name}")
    yield from numbers("KFD_COMPUTE KFD_IOC_QUEUE_TYPE_COMPUTE\nKFD_COMPUTE_AQL KFD_IOC_QUEUE_TYPE_COMPUTE_AQL")
    yield from structures(KFD_STRUCTURES)
