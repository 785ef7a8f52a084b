/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The part of gpurt_sm.h for machines without a GPU: SMs on which a kernel's blocks execute as a dispatcher places them.
 * It is for tests of kernels, and it has no timing.  Include gpurt_sm.h, with this folder among those of headers.
 *
 *	gpurt_sm_machine machine(sms, threads in a block, seed);
 *	machine.place = dispatcher;			unless given, anywhere at random
 *	machine.launch(blocks, [&] { ... gpurt_sm_run(range, control, body); });
 *
 * Each thread of a block is a coroutine.  The one that goes on is drawn anew at each atomic operation and barrier, so
 * that a seed is one interleaving.  A body's __syncthreads() is gpurt_sm_barrier().
 */
#ifndef GPURT_SM_HOST_H
#define GPURT_SM_HOST_H

#include <memory>
#include <stdexcept>
#include <ucontext.h>
#include <vector>

/* A thread's view of the machine, as part of a block.  Tests may use another one, such as system threads. */
struct gpurt_sm_here {
	virtual unsigned int id() = 0;		/* of the SM */
	virtual bool leads() = 0;
	virtual void barrier() = 0;
	virtual void step() = 0;		/* others may go on */
	virtual unsigned long long clock() = 0;
	virtual unsigned int *next() = 0;	/* shared by the threads of the block */
	virtual ~gpurt_sm_here() {}
};

inline gpurt_sm_here *&gpurt_sm_thread()
{
	static thread_local gpurt_sm_here *here;

	return here;
}

inline unsigned int gpurt_sm_id() { return gpurt_sm_thread()->id(); }
inline bool gpurt_sm_leads() { return gpurt_sm_thread()->leads(); }
inline void gpurt_sm_barrier() { gpurt_sm_thread()->barrier(); }
inline unsigned int *gpurt_sm_next() { return gpurt_sm_thread()->next(); }

template <class Number>
inline Number gpurt_sm_add(Number *counter, Number amount)
{
	gpurt_sm_thread()->step();
	return __atomic_fetch_add(counter, amount, __ATOMIC_SEQ_CST);
}

/* The unit of the clock is a step of any thread. */
inline void gpurt_sm_hold(struct gpurt_sm_control *control, unsigned int wanted)
{
	unsigned long long start = gpurt_sm_thread()->clock();

	while (__atomic_load_n(&control->seated, __ATOMIC_SEQ_CST) < wanted &&
	       gpurt_sm_thread()->clock() - start < control->hold)
		gpurt_sm_thread()->step();
}

class gpurt_sm_machine;
/* Returns the SM, with a free place, that the next block goes to; -1: it waits until a block has left. */
typedef int (*gpurt_sm_dispatcher)(gpurt_sm_machine &machine, void *context);

class gpurt_sm_machine {
public:
	struct block {
		unsigned int index, sm, left, waiting, next;
		unsigned int reads;	/* of its SM's number */
	};

	gpurt_sm_machine(unsigned int sms, unsigned int threads, unsigned long long seed)
		: sms(sms), threads(threads), busy(sms), state_(seed * 2 + 1)
	{
	}

	const unsigned int sms, threads;
	std::vector<unsigned int> busy;		/* places of each SM that are taken, also by others if a test says so */
	int freed = -1;				/* the SM that a block of the launch has left last */
	gpurt_sm_dispatcher place = nullptr;
	void *context = nullptr;
	unsigned int places = 2;		/* of an SM; more where blocks are smaller than they should be */

	unsigned int random(unsigned int below)
	{
		state_ ^= state_ << 13;
		state_ ^= state_ >> 7;
		state_ ^= state_ << 17;
		return (unsigned int)((state_ >> 32) % below);
	}

	/* Executes a kernel of so many blocks.  Throws std::logic_error if the dispatcher or a barrier is stuck. */
	template <class Kernel>
	void launch(unsigned int blocks, const Kernel &kernel)
	{
		unsigned int next = 0;

		kernel_ = [](const void *which) { (*static_cast<const Kernel *>(which))(); };
		argument_ = &kernel;
		freed = -1;
		for (;;) {
			int sm = -1;

			if (next < blocks)
				sm = place ? place(*this, context) : anywhere(*this, nullptr);
			if (sm >= 0) {
				if ((unsigned int)sm >= sms || busy[sm] >= places)
					throw std::logic_error("the dispatcher chose an SM without a free place");
				start(next++, (unsigned int)sm);
				if (random(2))
					continue;	/* more blocks before any of these goes on */
			} else if (ready_.empty()) {
				break;
			}
			step_one();
		}
		if (next < blocks || live_)
			throw std::logic_error(live_ ? "threads wait at a barrier for ever" : "blocks were never placed");
	}

	/* The block that executes, for tests. */
	block *now() const { return current_->home; }
	unsigned int thread() const { return current_->thread; }

	/* How many threads of the launch have begun and not ended. */
	unsigned int live() const { return live_; }

	static int anywhere(gpurt_sm_machine &machine, void *)
	{
		unsigned int from = machine.random(machine.sms), i;

		for (i = 0; i < machine.sms; i++)
			if (machine.busy[(from + i) % machine.sms] < machine.places)
				return (int)((from + i) % machine.sms);
		return -1;
	}

private:
	static const unsigned int stack_size = 65536;

	struct fiber : gpurt_sm_here {
		gpurt_sm_machine *machine;
		block *home;
		unsigned int thread;
		ucontext_t context;
		std::unique_ptr<char[]> stack;

		unsigned int id() override
		{
			home->reads++;
			return home->sm;
		}
		bool leads() override { return !thread; }
		void step() override { machine->yield(true); }
		unsigned long long clock() override { return machine->steps_; }
		unsigned int *next() override { return &home->next; }
		void barrier() override
		{
			machine->yield(++home->waiting == machine->threads);
		}
	};

	void start(unsigned int index, unsigned int sm)
	{
		block *home = new block{ index, sm, threads, 0, 0, 0 };
		unsigned int i;

		busy[sm]++;
		live_ += threads;
		for (i = 0; i < threads; i++) {
			std::unique_ptr<fiber> made = take();

			made->machine = this;
			made->home = home;
			made->thread = i;
			getcontext(&made->context);
			made->context.uc_stack.ss_sp = made->stack.get();
			made->context.uc_stack.ss_size = stack_size;
			made->context.uc_link = &main_;
			makecontext(&made->context, reinterpret_cast<void (*)()>(enter), 0);
			ready_.push_back(std::move(made));
		}
	}

	std::unique_ptr<fiber> take()
	{
		std::unique_ptr<fiber> made;

		if (spare_.empty()) {
			made.reset(new fiber);
			made->stack.reset(new char[stack_size]);
			return made;
		}
		made = std::move(spare_.back());
		spare_.pop_back();
		return made;
	}

	/* Starts a thread of a block.  The end of the function goes back to step_one(). */
	static void enter()
	{
		fiber *self = static_cast<fiber *>(gpurt_sm_thread());

		self->machine->kernel_(self->machine->argument_);
		self->machine->over_ = true;
	}

	/* One thread goes on until it yields or ends. */
	void step_one()
	{
		unsigned int at = random((unsigned int)ready_.size());

		steps_++;
		current_ = ready_[at].get();
		gpurt_sm_thread() = current_;
		over_ = stops_ = releases_ = false;
		swapcontext(&main_, &current_->context);
		gpurt_sm_thread() = nullptr;
		if (over_)
			ended(at);
		else if (stops_)
			move(ready_, at, stopped_);
		else if (releases_)
			release(current_->home);
	}

	/* Lets others go on.  @ready: this thread may be chosen again; else it waits at a barrier. */
	void yield(bool ready)
	{
		fiber *self = current_;

		releases_ = self->home->waiting == threads;
		stops_ = !ready;
		swapcontext(&self->context, &main_);
	}

	void release(block *home)
	{
		size_t i;

		home->waiting = 0;
		for (i = stopped_.size(); i--;)
			if (stopped_[i]->home == home)
				move(stopped_, i, ready_);
	}

	void ended(unsigned int at)
	{
		block *home = current_->home;

		live_--;
		move(ready_, at, spare_);
		if (--home->left)
			return;
		freed = (int)home->sm;
		busy[home->sm]--;
		delete home;
	}

	static void move(std::vector<std::unique_ptr<fiber> > &from, size_t at, std::vector<std::unique_ptr<fiber> > &to)
	{
		to.push_back(std::move(from[at]));
		from[at] = std::move(from.back());
		from.pop_back();
	}

	std::vector<std::unique_ptr<fiber> > ready_, stopped_, spare_;
	fiber *current_ = nullptr;
	ucontext_t main_;
	void (*kernel_)(const void *) = nullptr;
	const void *argument_ = nullptr;
	bool over_ = false, stops_ = false, releases_ = false;
	unsigned int live_ = 0;
	unsigned long long steps_ = 0, state_;
};

#endif /* GPURT_SM_HOST_H */
