// Dropout, with the residual's addition, and the random numbers for it. See ops/dropout.py and random_bits in arrays/random.py.
//
// The numbers are those that NumPy's generator PCG64DXSM gives on the host, so that both backends drop the same entries.
// Its state s, of 128 bits, moves by s' = a s + c. So w steps at once are
//
//     s_w = a^w s + c (1 + a + ... + a^(w-1))
//
// which takes about log2(w) multiplications, and each thread can jump to the word that it needs.

typedef unsigned long long Word;

struct Wide {  // 128 bits
    Word high, low;
};

__device__ Wide operator*(Wide a, Wide b) {
    return {__umul64hi(a.low, b.low) + a.high * b.low + a.low * b.high, a.low * b.low};
}

__device__ Wide operator+(Wide a, Wide b) {
    const Word low = a.low + b.low;
    return {a.high + b.high + (low < a.low), low};
}

const Word MULTIPLIER = 0xda942042e4dd58b5;

// s -> a s + c, or many such steps in one
struct Move {
    Wide a, c;
    __device__ Wide operator()(Wide s) const { return a * s + c; }
    __device__ Move then(Move next) const { return {next.a * a, next.a * c + next.c}; }
};

__device__ Move steps(Move one, Word n) {
    Move all = {{0, 1}, {0, 0}};
    for (; n > 0; n /= 2) {
        if (n % 2)
            all = all.then(one);
        one = one.then(one);
    }
    return all;
}

__device__ Word output(Wide s) {
    const Word low = s.low | 1;
    Word high = s.high;
    high ^= high >> 32;
    high *= MULTIPLIER;
    high ^= high >> 48;
    return high * low;
}

// y = residual + x k / (1 - p). A word holds the random numbers of four entries; each row begins with a new word. The
// threads take the words in turn. residual may be null.
template <typename T>
__global__ void dropout_forward(const T *x, const T *residual, Word state_high, Word state_low, Word c_high, Word c_low,
                                long long n_rows, long long n, long long threshold, double scale, T *y, bool *keep) {
    const long long words = (n + 3) / 4, n_threads = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const Move one = {{0, MULTIPLIER}, {c_high, c_low}}, turn = steps(one, n_threads);
    Wide state = steps(one, first)({state_high, state_low});
    for (long long word = first; word < n_rows * words; word += n_threads, state = turn(state)) {
        const Word bits = output(state);
        const long long row = word / words, column = word % words * 4;
        for (int part = 0; part < 4 && column + part < n; ++part) {
            const long long i = row * n + column + part;
            keep[i] = (long long)(bits >> 16 * part & 0xffff) >= threshold;
            const T kept = x[i] * T(scale) * T(keep[i]);
            y[i] = residual ? kept + residual[i] : kept;
        }
    }
}

// d_x = d_y k / (1 - p); the residual's gradient is d_y, and d_residual may be null.
template <typename T>
__global__ void dropout_backward(const T *d_y, const bool *keep, double scale, long long size, T *d_x, T *d_residual) {
    const long long n_threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += n_threads) {
        const T d = d_y[i];
        d_x[i] = d * T(scale) * T(keep[i]);
        if (d_residual)
            d_residual[i] = d;
    }
}
