// CUDA on the CPU, as far as the kernels here use it: a block of threads after the other, each thread a fiber that runs
// until it waits for others. Nothing is fast and nothing happens at the same time; but every index is computed, every
// barrier is kept, and what must not depend on the order of the threads can be run in several orders and compared.

#undef _FORTIFY_SOURCE  // its longjmp refuses to go to another stack
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __shared__ static

using std::exp;
using std::log;
using std::sqrt;

namespace emulation {

enum State { READY, AT_WARP, AT_BLOCK, ENDED };

struct Place {
    unsigned x;
};

// A fiber starts by ucontext, which asks the operating system each time, and goes on by setjmp, which does not. It lives
// on from block to block and from kernel to kernel: to start a thousand of them takes longer than most kernels.
struct Thread {
    jmp_buf place;
    bool started = false;
    State state = ENDED;
    unsigned exchanges = 0;
    char *stack = nullptr;
};

inline Place thread_index, block_index, block_size, grid_size;
inline Thread threads[1024];
inline jmp_buf scheduler;
inline uint64_t exchanged[2][32][32];
inline char problem[200];
inline void (*current_call)();

inline void wait(State until) {
    Thread &me = threads[thread_index.x];
    me.state = until;
    if (!_setjmp(me.place))
        _longjmp(scheduler, 1);
}

inline void live() {
    for (;;) {
        current_call();
        wait(ENDED);
    }
}

inline void run(Thread &thread) {
    if (_setjmp(scheduler))
        return;  // the thread waits
    if (thread.started)
        _longjmp(thread.place, 1);
    const size_t size = 32768;
    if (!thread.stack)
        thread.stack = new char[size];  // never freed, as the fiber lives as long as the process
    thread.started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = thread.stack;
    context.uc_stack.ss_size = size;
    context.uc_link = nullptr;
    makecontext(&context, live, 0);
    setcontext(&context);
}

// Move threads from one state to another; return how many there were in it.
inline int change(unsigned first, unsigned n, State before, State after) {
    int found = 0;
    for (Thread *thread = threads + first; thread < threads + first + n; ++thread)
        if (thread->state == before) {
            thread->state = after;
            ++found;
        }
    return found;
}

// An array in shared memory. It holds nothing when a block begins: what is read before it is written is NaN.
struct Shared {
    static inline Shared *last = nullptr;
    void *place;
    size_t size;
    Shared *before = last;
    Shared(void *place, size_t size) : place(place), size(size) {
        forget();
        last = this;
    }
    void forget() { std::memset(place, 0xff, size); }
};

inline uint32_t draw() {
    static uint32_t number = 1;
    return (number = number * 1664525 + 1013904223) >> 16;
}

// The order in which n things take their turns: 0 forwards, 1 backwards, otherwise at random.
inline void arrange(unsigned *turns, unsigned n, int order) {
    for (unsigned i = 0; i < n; ++i)
        turns[i] = order == 1 ? n - 1 - i : i;
    for (unsigned i = n; order > 1 && i > 1; --i)
        std::swap(turns[i - 1], turns[draw() % i]);
}

// Run a warp until each of its threads waits for the whole block or has ended; tell whether they came that far.
inline bool run_warp(unsigned warp, int order) {
    unsigned turns[32];
    arrange(turns, 32, order);
    for (;;) {
        for (unsigned turn : turns) {
            thread_index.x = warp * 32 + turn;
            if (threads[thread_index.x].state == READY)
                run(threads[thread_index.x]);
        }
        const int exchanging = change(warp * 32, 32, AT_WARP, READY);
        if (exchanging < 32)
            return exchanging == 0;
    }
}

// Run a block. From one barrier of the block to the next, the warps run one after the other. So two warps that use the
// same shared memory without a barrier between them do so in one order forwards and in the other backwards.
inline bool run_block(int order) {
    change(0, block_size.x, ENDED, READY);
    for (Shared *array = Shared::last; array; array = array->before)
        array->forget();
    do {
        unsigned turns[32];
        arrange(turns, block_size.x / 32, order);
        for (unsigned i = 0; i < block_size.x / 32; ++i)
            if (!run_warp(turns[i], order)) {
                std::snprintf(problem, sizeof problem, "block %u: some threads wait for others that never come",
                              block_index.x);
                for (Thread &thread : threads) {  // begin anew
                    thread.started = false;
                    thread.state = ENDED;
                    thread.exchanges = 0;
                }
                return false;
            }
    } while (change(0, block_size.x, AT_BLOCK, READY));
    return true;
}

template <typename T> constexpr char kind() {
    return std::is_pointer_v<T> ? 'p' : std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
}

template <typename... P, size_t... I>
const char *start(void (*kernel)(P...), std::index_sequence<I...>, const char *kinds, void **arguments, unsigned blocks,
                  unsigned size, int order) {
    static_assert(((sizeof(P) == 8) && ...), "every parameter has 8 bytes");
    const char wanted[] = {kind<P>()..., 0};
    bool fits = std::strlen(kinds) == sizeof...(P);
    for (size_t i = 0; fits && i < sizeof...(P); ++i) {
        const bool null = wanted[i] == 'p' && kinds[i] == 'u' && *static_cast<uint64_t *>(arguments[i]) == 0;
        fits = kinds[i] == wanted[i] || null;
    }
    if (!fits) {
        std::snprintf(problem, sizeof problem, "the kernel's parameters are %s, it was given %s", wanted, kinds);
        return problem;
    }
    if (blocks < 1 || size < 1 || size > 1024 || size % 32) {
        std::snprintf(problem, sizeof problem, "%u blocks of %u threads: expected whole warps", blocks, size);
        return problem;
    }
    static void (*called)(P...);
    static void **given;
    called = kernel;
    given = arguments;
    current_call = [] { called(*static_cast<std::remove_const_t<P> *>(given[I])...); };
    grid_size.x = blocks;
    block_size.x = size;
    for (unsigned b = 0; b < blocks; ++b) {
        block_index.x = order == 1 ? blocks - 1 - b : b;
        if (!run_block(order))
            return problem;
    }
    return nullptr;
}

template <typename... P>
const char *start(void (*kernel)(P...), const char *kinds, void **arguments, unsigned blocks, unsigned size, int order) {
    return start(kernel, std::index_sequence_for<P...>(), kinds, arguments, blocks, size, order);
}

}  // namespace emulation

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index
#define blockDim emulation::block_size
#define gridDim emulation::grid_size

inline void __syncthreads() { emulation::wait(emulation::AT_BLOCK); }

template <typename T> T __shfl_xor_sync(unsigned, T value, int distance) {
    const unsigned me = threadIdx.x, warp = me / 32, lane = me % 32;
    // Two places in turn: nobody writes into this one again before the whole warp has come to the next exchange.
    auto &places = emulation::exchanged[emulation::threads[me].exchanges++ % 2][warp];
    std::memcpy(&places[lane], &value, sizeof value);
    emulation::wait(emulation::AT_WARP);
    T other;
    std::memcpy(&other, &places[lane ^ distance], sizeof other);
    return other;
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned __int128>(a) * b >> 64;
}
