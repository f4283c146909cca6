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
#include <vector>

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
inline std::vector<Thread> threads(1024);
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

// Let every thread go on that waits for threads which have all come; tell whether there was one.
inline bool release() {
    bool released = false;
    for (unsigned first = 0; first < block_size.x; first += 32) {
        bool all = true;
        for (unsigned i = first; i < first + 32; ++i)
            all = all && threads[i].state == AT_WARP;
        for (unsigned i = first; all && i < first + 32; ++i)
            threads[i].state = READY;
        released = released || all;
    }
    if (released)
        return true;
    for (unsigned i = 0; i < block_size.x; ++i)
        if (threads[i].state != AT_BLOCK && threads[i].state != ENDED)
            return false;
    for (unsigned i = 0; i < block_size.x; ++i)
        if (threads[i].state == AT_BLOCK) {
            threads[i].state = READY;
            released = true;
        }
    return released;
}

// order: 0 from the first thread to the last, 1 the other way, otherwise at random
inline bool run_block(int order, uint32_t &random) {
    const unsigned n = block_size.x;
    for (unsigned i = 0; i < n; ++i) {
        threads[i].state = READY;
        threads[i].exchanges = 0;
    }
    for (;;) {
        unsigned turn = order > 1 ? (random = random * 1664525 + 1013904223) >> 16 : 0, ran = 0, ended = 0;
        for (unsigned i = 0; i < n; ++i) {
            const unsigned me = order == 1 ? n - 1 - i : (i + turn) % n;
            if (threads[me].state == READY) {
                ++ran;
                thread_index.x = me;
                run(threads[me]);
            }
            ended += threads[me].state == ENDED;
        }
        if (ended == n)
            return true;
        if (!ran && !release()) {
            std::snprintf(problem, sizeof problem, "block %u: some threads wait for others that never come",
                          block_index.x);
            for (Thread &thread : threads)
                thread.started = false;  // begin anew
            return false;
        }
    }
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
    uint32_t random = order;
    grid_size.x = blocks;
    block_size.x = size;
    for (unsigned b = 0; b < blocks; ++b) {
        block_index.x = order == 1 ? blocks - 1 - b : b;
        if (!run_block(order, random))
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
