// SPDX-License-Identifier: GPL-2.0 OR MIT
// libgpurt for C++11: a client, a segment and a copy that end with their scope.
#ifndef GPURT_HPP
#define GPURT_HPP

#include <cerrno>
#include <system_error>
#include <utility>

#include <gpurt.h>

namespace gpurt {

inline void check(int err, const char *what)
{
	if (err)
		throw std::system_error(-err, std::generic_category(), what);
}

// Whether a host knows of the begun segment or job.  False: there is no host, and the caller passed no client.
inline bool begun(int err, const ::gpurt_handle *handle, const char *what)
{
	if (err == -ENODEV && !handle)
		return false;
	check(err, what);
	return true;
}

// One client of the host.  Throws std::system_error if there is none.
class client {
public:
	explicit client(const char *device = nullptr) { check(gpurt_open(&handle_, device), "gpurt_open"); }
	client(client &&other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
	client &operator=(client &&other) noexcept
	{
		std::swap(handle_, other.handle_);
		return *this;
	}
	client(const client &) = delete;
	client &operator=(const client &) = delete;
	~client() { gpurt_close(handle_); }
	::gpurt_handle *get() const noexcept { return handle_; }

private:
	::gpurt_handle *handle_ = nullptr;
};

// A GPU segment from construction to destruction.  Like the C function, the constructor returns at once.  wait() blocks
// until the segment holds the GPU.  If there is no host, managed() is false and the program runs on.  With
// GPURT_BEGIN_WAIT the constructor blocks; if a signal interrupts it, it ends the segment and throws.
class segment {
public:
	explicit segment(unsigned int priority = 0, unsigned int flags = 0) : segment(nullptr, priority, flags) {}
	segment(const client &c, unsigned int priority = 0, unsigned int flags = 0) : segment(c.get(), priority, flags) {}
	segment(segment &&other) noexcept : handle_(other.handle_), open_(other.open_) { other.open_ = false; }
	segment(const segment &) = delete;
	segment &operator=(const segment &) = delete;
	segment &operator=(segment &&) = delete;
	~segment()
	{
		if (open_)
			gpurt_segment_end(handle_, 0);
	}
	bool managed() const noexcept { return open_; }
	void wait(uint64_t timeout_ns = GPURT_FOREVER)
	{
		if (open_)
			check(gpurt_segment_wait(handle_, timeout_ns), "gpurt_segment_wait");
	}

private:
	segment(::gpurt_handle *handle, unsigned int priority, unsigned int flags) : handle_(handle)
	{
		int err = gpurt_segment_begin(handle_, flags, priority);

		if (err == -EINTR)
			gpurt_segment_end(handle_, 0);
		open_ = begun(err, handle_, "gpurt_segment_begin");
	}

	::gpurt_handle *handle_;
	bool open_ = false;
};

// A copy over the bus, from construction to destruction: the constructor waits until this copy has the bus.  next(),
// between two chunks, lets more urgent copies come first.  Wait for the GPU to finish copying before both.
class copy {
public:
	explicit copy(unsigned int priority = 0) : copy(nullptr, priority) {}
	copy(const client &c, unsigned int priority = 0) : copy(c.get(), priority) {}
	copy(copy &&other) noexcept : handle_(other.handle_), open_(other.open_) { other.open_ = false; }
	copy(const copy &) = delete;
	copy &operator=(const copy &) = delete;
	copy &operator=(copy &&) = delete;
	~copy()
	{
		if (open_)
			gpurt_copy_end(handle_);
	}
	bool managed() const noexcept { return open_; }
	void next()
	{
		int err;

		if (!open_)
			return;
		err = gpurt_copy_next(handle_, GPURT_FOREVER);
		open_ = !err;
		check(err, "gpurt_copy_next");
	}

private:
	copy(::gpurt_handle *handle, unsigned int priority) : handle_(handle)
	{
		open_ = begun(gpurt_copy_begin(handle_, priority, GPURT_FOREVER), handle_, "gpurt_copy_begin");
	}

	::gpurt_handle *handle_;
	bool open_ = false;
};

// A job of a task, from construction to destruction, in the same thread; see gpurt_job_begin().  If there is no host,
// managed() is false and the program runs on.
class job {
public:
	explicit job(const char *task, uint64_t number, uint64_t release_ns = 0) : job(nullptr, task, number, release_ns) {}
	job(const client &c, const char *task, uint64_t number, uint64_t release_ns = 0) :
		job(c.get(), task, number, release_ns) {}
	job(const job &) = delete;
	job &operator=(const job &) = delete;
	~job()
	{
		if (open_)
			gpurt_job_end(handle_);
	}
	bool managed() const noexcept { return open_; }

private:
	job(::gpurt_handle *handle, const char *task, uint64_t number, uint64_t release_ns) : handle_(handle)
	{
		open_ = begun(gpurt_job_begin(handle_, task, number, release_ns), handle_, "gpurt_job_begin");
	}

	::gpurt_handle *handle_;
	bool open_ = false;
};

// A periodic task: each turn of `while (p.next())` is one job.  next() returns false after a signal.  The last job ends
// with its scope, or with stop().  See gpurt_periodic_next().
class periodic {
public:
	explicit periodic(const char *task, uint64_t period_ns, uint64_t first_ns = 0)
	{
		check(gpurt_periodic_init(&state_, nullptr, task, period_ns, first_ns), "gpurt_periodic_init");
	}
	periodic(const client &c, const char *task, uint64_t period_ns, uint64_t first_ns = 0)
	{
		check(gpurt_periodic_init(&state_, c.get(), task, period_ns, first_ns), "gpurt_periodic_init");
	}
	periodic(const periodic &) = delete;
	periodic &operator=(const periodic &) = delete;
	~periodic() { gpurt_periodic_stop(&state_); }
	bool next()
	{
		int err = gpurt_periodic_next(&state_);

		if (err != -EINTR)
			check(err, "gpurt_periodic_next");
		return !err;
	}
	void stop() { check(gpurt_periodic_stop(&state_), "gpurt_periodic_stop"); }
	const ::gpurt_periodic &state() const noexcept { return state_; }

private:
	::gpurt_periodic state_;
};

} // namespace gpurt

#endif // GPURT_HPP
