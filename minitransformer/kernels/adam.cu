// A step of Adam over the buffer in which all parameters lie side by side. See optim/adam.py.
//
// The gradients lie elsewhere, each in an array of its own; gradients[k] says where, or is null if there is none, which
// stands for zeros. The buffer is cut into chunks, none of which holds parts of two parameters, and a block of threads
// takes one chunk: first[b] is its place in the buffer, length[b] its length, of[b] the number of its parameter, begin[b]
// its place in that parameter's gradient, and decays[b] is 1 where weights are drawn towards zero, else 0.
template <typename T>
__global__ void adam_step(const unsigned long long *gradients, const long long *first, const long long *length,
                          const long long *of, const long long *begin, const long long *decays, double beta1,
                          double beta2, double rate, double eps, double decay, T *theta, T *mean, T *mean_square) {
    const long long chunk = blockIdx.x;
    const T *gradient = reinterpret_cast<const T *>(gradients[of[chunk]]);
    if (gradient)
        gradient += begin[chunk];
    const T share = decays[chunk] ? T(decay) : T(0);
    theta += first[chunk];
    mean += first[chunk];
    mean_square += first[chunk];
    for (long long i = threadIdx.x; i < length[chunk]; i += blockDim.x) {
        const T g = gradient ? gradient[i] : T(0);
        const T m = mean[i] + (g - mean[i]) * T(1 - beta1);
        const T v = mean_square[i] * T(beta2) + g * g * T(1 - beta2);
        mean[i] = m;
        mean_square[i] = v;
        theta[i] -= m / (sqrt(v) + T(eps)) * T(rate) + share * theta[i];
    }
}
