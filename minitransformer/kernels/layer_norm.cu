// Layer normalisation: one block of threads for a row of n features. See ops/layer_norm.py.

#include "rows.cuh"

template <typename T>
__global__ void layer_norm_forward(const T *x, const T *gain, const T *bias, double eps, long long n, T *y, T *x_hat,
                                   T *rstd) {
    const long long row = blockIdx.x;
    x += row * n;
    y += row * n;
    x_hat += row * n;

    // μ = (1/D) Σ_i x_i
    T sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        sum += x[i];
    const T mean = over_block<Sum>(sum) / T(n);

    // c_i = (x_i - μ) - shift: what the rounded μ leaves of the mean is subtracted too
    sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        sum += x[i] - mean;
    const T shift = over_block<Sum>(sum) / T(n);

    // rstd = 1 / sqrt((1/D) Σ_i c_i² + ε)
    T squares = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        const T centred = (x[i] - mean) - shift;
        squares += centred * centred;
    }
    const T scale = T(1) / sqrt(over_block<Sum>(squares) / T(n) + T(eps));
    if (threadIdx.x == 0)
        rstd[row] = scale;

    // x̂ = rstd c, y = g x̂ + b
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        x_hat[i] = ((x[i] - mean) - shift) * scale;
        y[i] = gain[i] * x_hat[i] + bias[i];
    }
}

// d_x_j = rstd (d_x̂_j - mean(d_x̂) - x̂_j mean(d_x̂ x̂)) with d_x̂ = d_y g
template <typename T>
__global__ void layer_norm_backward(const T *x_hat, const T *rstd, const T *gain, const T *d_y, long long n, T *d_x) {
    const long long row = blockIdx.x;
    x_hat += row * n;
    d_y += row * n;
    d_x += row * n;
    T sum = 0, along = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        const T d_x_hat = d_y[i] * gain[i];
        sum += d_x_hat;
        along += d_x_hat * x_hat[i];
    }
    sum = over_block<Sum>(sum) / T(n);
    along = over_block<Sum>(along) / T(n);
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        d_x[i] = rstd[row] * (d_y[i] * gain[i] - sum - x_hat[i] * along);
}

// d_g_i = Σ_rows d_y_i x̂_i and d_b_i = Σ_rows d_y_i over some of the rows: a block takes 32 features of one part of the
// rows, each of its warps every so many rows. The sums of the parts are added up afterwards, always in the same order.
template <typename T>
__global__ void layer_norm_parameters(const T *x_hat, const T *d_y, long long n_rows, long long n, long long n_parts,
                                      T *d_gain, T *d_bias) {
    __shared__ T of_warps[2][32][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    const long long part = blockIdx.x % n_parts, i = blockIdx.x / n_parts * 32 + lane;
    T gain = 0, bias = 0;
    if (i < n)
        for (long long row = part * n_warps + warp; row < n_rows; row += n_parts * n_warps) {
            gain += d_y[row * n + i] * x_hat[row * n + i];
            bias += d_y[row * n + i];
        }
    of_warps[0][warp][lane] = gain;
    of_warps[1][warp][lane] = bias;
    __syncthreads();
    if (warp != 0 || i >= n)
        return;
    for (int other = 1; other < n_warps; ++other) {
        gain += of_warps[0][other][lane];
        bias += of_warps[1][other][lane];
    }
    d_gain[part * n + i] = gain;
    d_bias[part * n + i] = bias;
}
