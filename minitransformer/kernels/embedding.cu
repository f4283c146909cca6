// The gradient of an embedding's table: the sum of the rows of d_y whose id is v, for each v. See ops/embedding.py.
//
// keys are id * n + position, sorted, so that the positions of an id lie side by side and in order. A block of threads takes
// 32 features of one id: its warps share out the positions, then their sums are added up, always in the same order.
template <typename T>
__global__ void embedding_backward(const long long *keys, const T *d_y, long long n, long long n_features, T *d_table) {
    __shared__ T of_warps[32][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    const long long parts = (n_features + 31) / 32, id = blockIdx.x / parts, i = blockIdx.x % parts * 32 + lane;

    // the first key of this id, found by halving
    long long first = 0, end = n;
    while (first < end) {
        const long long middle = (first + end) / 2;
        if (keys[middle] < id * n)
            first = middle + 1;
        else
            end = middle;
    }

    T sum = 0;
    if (i < n_features)
        for (long long k = first + warp; k < n && keys[k] / n == id; k += n_warps)
            sum += d_y[keys[k] % n * n_features + i];
    of_warps[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || i >= n_features)
        return;
    for (int other = 1; other < n_warps; ++other)
        sum += of_warps[other][lane];
    d_table[id * n_features + i] = sum;
}
