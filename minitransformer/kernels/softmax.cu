// The softmax of each row, with a mask: one block of threads for a row of n scores. See ops/softmax.py.

#include "rows.cuh"

// The mask, broadcast to the scores (A, B, C, n), is read by the distances between its entries; 0 where it repeats.
// Without one, mask is null.
template <typename T>
__global__ void softmax_forward(const T *x, const bool *mask, long long B, long long C, long long n, long long step_a,
                                long long step_b, long long step_c, long long step_n, T *y) {
    const long long row = blockIdx.x;
    x += row * n;
    y += row * n;
    if (mask)
        mask += row / (B * C) * step_a + row / C % B * step_b + row % C * step_c;

    // m = max_i x_i over what may be seen
    T largest = Largest::start<T>();
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        if (!mask || mask[i * step_n])
            largest = Largest::of(largest, x[i]);
    largest = over_block<Largest>(largest);
    if (largest == Largest::start<T>())
        largest = 0;  // nothing to be seen: every weight is exp(-inf) = 0

    // y_i = exp(x_i - m) / Σ_j exp(x_j - m)
    T total = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        const T e = !mask || mask[i * step_n] ? exp(x[i] - largest) : T(0);
        y[i] = e;
        total += e;
    }
    total = over_block<Sum>(total);
    if (total == 0)
        total = 1;
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        y[i] /= total;
}

// d_x_j = y_j (d_y_j - Σ_i d_y_i y_i)
template <typename T> __global__ void softmax_backward(const T *y, const T *d_y, long long n, T *d_x) {
    const long long row = blockIdx.x;
    y += row * n;
    d_y += row * n;
    d_x += row * n;
    T sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        sum += d_y[i] * y[i];
    sum = over_block<Sum>(sum);
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        d_x[i] = y[i] * (d_y[i] - sum);
}
