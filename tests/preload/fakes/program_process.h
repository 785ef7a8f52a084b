/* SPDX-License-Identifier: GPL-2.0 */
/* Actions of program.c on its own process: children, threads that are cancelled, signal handlers, descriptors. */
#ifndef PROGRAM_PROCESS_H
#define PROGRAM_PROCESS_H

#include <stdbool.h>

/* The exit status of a child that does @work.  @raw: made by the kernel's call alone. */
int in_child(int (*work)(void), bool raw);
int close_all(void);
/* Duplicates every descriptor, closes it, and duplicates it back to its number. */
int shuffle(void);
/* Threads that are cancelled while they close a duplicate of a descriptor, one thread for each descriptor. */
int cancelled(void);
int limit_descriptors(unsigned int number);
/* From now on SIGUSR1 has the program open, duplicate and close files, and fork. */
int handle_signals(void);
/* 0 after such a signal was handled. */
int signals_handled(void);
/* Closes a library and opens it again at another address. */
int reload(void **library, const char *name, const char *symbol);

/* Closes everything in a child of vfork().  Forbids itself what a sandbox forbids.  Opens the file FAKE_STOLEN in the place of stderr. */
int close_in_vfork(void);
int seal(void);
int steal_stderr(void);

#endif
