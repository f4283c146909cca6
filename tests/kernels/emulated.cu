// Each thread writes its own number, then reads that of another warp, whose threads may not have come so far.
__global__ void without_barrier(long long *y) {
    __shared__ long long numbers[64];
    numbers[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = numbers[(threadIdx.x + 32) % 64];
}

__global__ void with_barrier(long long *y) {
    __shared__ long long numbers[64];
    numbers[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = numbers[(threadIdx.x + 32) % 64];
}

// The numbers are used a second time before all have read the first ones.
__global__ void without_second_barrier(long long *y) {
    __shared__ long long numbers[2];
    for (int i = 0; i < 2; ++i) {
        if (threadIdx.x % 32 == 0)
            numbers[threadIdx.x / 32] = 10 * i + threadIdx.x / 32;
        __syncthreads();
        y[threadIdx.x] += numbers[0] + numbers[1];
    }
}

__global__ void half_a_warp_exchanges(long long *y) {
    y[threadIdx.x] = threadIdx.x < 16 ? __shfl_xor_sync(0xffff, 1ll, 1) : 0;
}

__global__ void without_a_value(double *y) {
    __shared__ double sums[2];
    if (blockIdx.x == 0)
        sums[threadIdx.x / 32] = 1;
    __syncthreads();
    y[blockIdx.x] = sums[0] + sums[1];
}
