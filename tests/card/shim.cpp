// A CUDA device without a driver: what ATen and autograd of a CPU build ask one for, answered by doing nothing.
// Registered while torch's libraries load, so it has to be loaded before them.

#include <ATen/SDPBackend.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cmath>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

struct CardGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr DeviceType static_type = DeviceType::CUDA;
  static Device card() { return Device(static_type, 0); }
  static Stream stream() { return Stream(Stream::DEFAULT, card()); }

  DeviceType type() const override { return static_type; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Device getDevice() const override { return card(); }
  Device exchangeDevice(Device) const override { return card(); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}

  Stream getStream(Device) const override { return stream(); }
  Stream getDefaultStream(Device) const override { return stream(); }
  Stream exchangeStream(Stream) const override { return stream(); }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}

  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
};

C10_REGISTER_GUARD_IMPL(CUDA, CardGuard)

int64_t chosen[4] = {0, 0, 0, 0};  // how often each at::SDPBackend was: math, flash, efficient, cuDNN

// What aten/src/ATen/native/transformers/cuda/sdp_utils.cpp decides on a GPU of compute capability 9.0.
int64_t choose(
    const at::Tensor& query, const at::Tensor&, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    double dropout, bool, std::optional<double>, bool) {
  const bool half = query.scalar_type() == at::kBFloat16 || query.scalar_type() == at::kHalf;
  const bool known = half || query.scalar_type() == at::kFloat;
  const int64_t size = query.size(-1), value_size = value.size(-1), multiple = half ? 8 : 4;
  const auto sizes_are = [&](int64_t of, int64_t most) {
    return size % of == 0 && value_size % of == 0 && size <= most && value_size <= most;
  };
  at::SDPBackend backend = at::SDPBackend::math;
  if (half && sizes_are(8, 128) && dropout * 16 == std::floor(dropout * 16)) {
    backend = at::SDPBackend::cudnn_attention;
  } else if (half && !mask.has_value() && size == value_size && size <= 256) {
    backend = at::SDPBackend::flash_attention;
  } else if (known && sizes_are(multiple, INT64_MAX)) {
    backend = at::SDPBackend::efficient_attention;
  }
  ++chosen[static_cast<int>(backend)];
  return static_cast<int64_t>(backend);
}

}  // namespace

extern "C" int64_t times_chosen(int64_t backend) { return chosen[backend]; }

namespace at {

struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
};

C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", CUDAHooks)

namespace native {
const int registered = (_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose), 0);
}

}  // namespace at
