// Sums and maxima over a block of threads, for kernels that give each row of an array to one block.
//
// Every thread brings a value, and every thread gets the result. The 32 threads of a warp exchange their values
// directly; then each warp leaves its own in shared memory, where all warps read them. A block has whole warps only.

const unsigned WHOLE_WARP = 0xffffffff;

struct Sum {
    template <typename T> static __device__ T start() { return 0; }
    template <typename T> static __device__ T of(T a, T b) { return a + b; }
};

struct Largest {
    template <typename T> static __device__ T start() { return log(T(0)); }  // -inf, for which NVRTC has no name
    template <typename T> static __device__ T of(T a, T b) { return a > b ? a : b; }
};

template <typename How, typename T> __device__ T over_warp(T value) {
    for (int distance = 16; distance > 0; distance /= 2)
        value = How::of(value, __shfl_xor_sync(WHOLE_WARP, value, distance));
    return value;
}

template <typename How, typename T> __device__ T over_block(T value) {
    __shared__ T of_warps[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    value = over_warp<How>(value);
    if (n_warps == 1)
        return value;
    if (lane == 0)
        of_warps[warp] = value;
    __syncthreads();
    value = over_warp<How>(lane < n_warps ? of_warps[lane] : How::template start<T>());
    __syncthreads();  // nobody may write the next values before all have read these
    return value;
}
