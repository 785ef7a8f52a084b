// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// Template of a periodic task in C++11.
//
//	c++ lidar.cpp -lgpurt -o lidar
//	./lidar [JOBS]			without JOBS: until Ctrl-C
//
// Exit codes: 0; 4 what failed is printed.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <system_error>

#include <gpurt.hpp>

namespace {

volatile std::sig_atomic_t stop;

void on_signal(int)
{
	stop = 1;
}

// The work of the job on the GPU, and the wait for it.  Replace both by launches and cudaStreamSynchronize().
void work_on_gpu(const gpurt::client &client, uint32_t tsg)
{
	uint64_t work;
	int err;

	gpurt::check(gpurt_submit_work(client.get(), tsg, GPURT_ENGINE_EXEC, 0, 20000000, &work), "submit");
	do
		err = gpurt_work_wait(client.get(), tsg, work, GPURT_FOREVER, nullptr);
	while (err == -EINTR);
	gpurt::check(err, "wait");
}

void run(uint64_t jobs)
{
	gpurt::client client;
	gpurt::periodic lidar(client, "lidar", 100000000);
	uint32_t tsg;

	gpurt::check(gpurt_tsg_open(client.get(), &tsg), "open a TSG");	// for the virtual GPU
	while (!stop && lidar.state().jobs < jobs) {
		if (!lidar.next())
			continue;	// a signal
		gpurt::segment segment(client);
		work_on_gpu(client, tsg);
	}
	lidar.stop();
	std::cout << "lidar: " << lidar.state().jobs << " jobs, " << lidar.state().behind
		  << " released before the one before had ended, " << lidar.state().jitter_max_ns / 1000
		  << " us at most from release to wake-up\n";
}

} // namespace

int main(int argc, char **argv)
{
	std::signal(SIGINT, on_signal);
	std::signal(SIGTERM, on_signal);
	try {
		run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : UINT64_MAX);
	} catch (const std::system_error &error) {
		std::cerr << "lidar: " << error.what() << '\n';
		return 4;
	}
	return 0;
}
