// Label-smoothed cross-entropy: one block of threads for a row of n logits. See ops/cross_entropy.py.

#include "rows.cuh"

// loss = s - (1 - ε) x_t - (ε / V) Σ_v x_v of each row that counts, 0 of the others; p = softmax of every row
template <typename T>
__global__ void cross_entropy_forward(const T *x, const long long *targets, const bool *counts, double smoothing,
                                      long long n, T *p, T *loss) {
    const long long row = blockIdx.x;
    x += row * n;
    p += row * n;
    T largest = Largest::start<T>();
    for (long long v = threadIdx.x; v < n; v += blockDim.x)
        largest = Largest::of(largest, x[v]);
    largest = over_block<Largest>(largest);
    if (largest == Largest::start<T>())
        largest = 0;  // no token is possible: every p is exp(-inf) = 0
    T total = 0, sum = 0;
    for (long long v = threadIdx.x; v < n; v += blockDim.x) {
        const T shifted = x[v] - largest;
        p[v] = exp(shifted);
        total += p[v];
        sum += shifted;
    }
    total = over_block<Sum>(total);
    sum = over_block<Sum>(sum);
    if (total == 0)
        total = 1;
    for (long long v = threadIdx.x; v < n; v += blockDim.x)
        p[v] /= total;
    if (threadIdx.x == 0) {
        // what has no share is left out: 0 times a logit of -inf would be NaN
        T wanted = smoothing != 1 ? T(1 - smoothing) * (x[targets[row]] - largest) : T(0);
        if (smoothing != 0)
            wanted += T(smoothing) * (sum / T(n));
        loss[row] = counts[row] ? log(total) - wanted : T(0);
    }
}

// d_x_v = (p_v - q_v) times the row's share of d_loss
template <typename T>
__global__ void cross_entropy_backward(const T *p, const long long *targets, const bool *counts, const T *d_loss,
                                       long long n_counted, double smoothing, long long n, T *d_x) {
    const long long row = blockIdx.x;
    p += row * n;
    d_x += row * n;
    if (!counts[row]) {
        for (long long v = threadIdx.x; v < n; v += blockDim.x)
            d_x[v] = 0;
        return;
    }
    const T share = *d_loss / T(n_counted);
    const T spread = smoothing != 0 ? share * T(smoothing / double(n)) : T(0);
    for (long long v = threadIdx.x; v < n; v += blockDim.x)
        d_x[v] = p[v] * share - spread - (v == targets[row] ? T(1 - smoothing) * share : T(0));
}
