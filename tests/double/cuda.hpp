// CUDA on the CPU, as far as the kernels here use it: a block of threads after the other, each thread a fiber that runs
// until it waits for others. Nothing is fast and nothing happens at the same time; but every index is computed, every
// barrier is kept, and what must not depend on the order of the threads can be run in several orders and compared.

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
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

struct Thread {
    ucontext_t context;
    State state;
    std::vector<char> stack;
};

inline Place thread_index, block_index, block_size, grid_size;
inline std::vector<Thread> threads;
inline ucontext_t scheduler;
inline uint64_t exchanged[32][32];
inline char problem[200];

inline void wait(State until) {
    const unsigned me = thread_index.x;
    threads[me].state = until;
    swapcontext(&threads[me].context, &scheduler);
}

inline void end() { wait(ENDED); }

// Let every thread go on that waits for threads which have all come; tell whether there was one.
inline bool release() {
    bool released = false;
    for (unsigned first = 0; first < threads.size(); first += 32) {
        bool all = true;
        for (unsigned i = first; i < first + 32; ++i)
            all = all && threads[i].state == AT_WARP;
        for (unsigned i = first; all && i < first + 32; ++i)
            threads[i].state = READY;
        released = released || all;
    }
    if (released)
        return true;
    for (Thread &thread : threads)
        if (thread.state != AT_BLOCK && thread.state != ENDED)
            return false;
    for (Thread &thread : threads)
        if (thread.state == AT_BLOCK) {
            thread.state = READY;
            released = true;
        }
    return released;
}

template <typename Call> void trampoline_of(Call *call) {
    (*call)();
    end();
}

inline void *current_call;
template <typename Call> void trampoline() { trampoline_of(static_cast<Call *>(current_call)); }

// order: 0 from the first thread to the last, 1 the other way, otherwise at random
template <typename Call> bool run_block(Call &call, int order, std::mt19937 &random) {
    current_call = &call;
    for (Thread &thread : threads) {
        getcontext(&thread.context);
        thread.stack.resize(32768);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, trampoline<Call>, 0);
        thread.state = READY;
    }
    const unsigned n = threads.size();
    for (;;) {
        unsigned turn = order > 1 ? random() % n : 0, ran = 0, ended = 0;
        for (unsigned i = 0; i < n; ++i) {
            const unsigned me = order == 1 ? n - 1 - i : (i + turn) % n;
            if (threads[me].state == READY) {
                ++ran;
                thread_index.x = me;
                swapcontext(&scheduler, &threads[me].context);
            }
            ended += threads[me].state == ENDED;
        }
        if (ended == n)
            return true;
        if (!ran && !release()) {
            std::snprintf(problem, sizeof problem, "block %u: some threads wait for others that never come",
                          block_index.x);
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
    auto call = [&] { kernel(*static_cast<std::remove_const_t<P> *>(arguments[I])...); };
    std::mt19937 random(order);
    threads.assign(size, Thread());
    grid_size.x = blocks;
    block_size.x = size;
    for (unsigned b = 0; b < blocks; ++b) {
        block_index.x = order == 1 ? blocks - 1 - b : b;
        if (!run_block(call, order, random))
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
    std::memcpy(&emulation::exchanged[warp][lane], &value, sizeof value);
    emulation::wait(emulation::AT_WARP);
    T other;
    std::memcpy(&other, &emulation::exchanged[warp][lane ^ distance], sizeof other);
    emulation::wait(emulation::AT_WARP);
    return other;
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned __int128>(a) * b >> 64;
}
