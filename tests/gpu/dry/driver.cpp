// The functions of driver and run-time compiler that libcaffe2_nvrtc.so wants when it is loaded.
// There is a primary context; a compilation at run time is refused.
#include "record.hpp"

DRY_EXPORT int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}
DRY_EXPORT int cuGetErrorString(int, const char** text) {
  *text = "an error of the dry GPU";
  return 0;
}
DRY_EXPORT int cuCtxGetCurrent(void** context) {
  static char place;
  *context = &place;
  return 0;
}
DRY_EXPORT const char* nvrtcGetErrorString(int) { return "the dry GPU compiles no kernels"; }

#define DRY_SUCCEED(NAME) \
  DRY_EXPORT int NAME() { return 0; }
#define DRY_REFUSE(NAME) \
  DRY_EXPORT int NAME() { return 1; }
DRY_SUCCEED(cuCtxSetCurrent)
DRY_SUCCEED(cuDeviceGet)
DRY_SUCCEED(cuDevicePrimaryCtxRetain)
DRY_REFUSE(cuDeviceGetAttribute)
DRY_REFUSE(cuFuncGetAttribute)
DRY_REFUSE(cuFuncSetAttribute)
DRY_REFUSE(cuFuncSetCacheConfig)
DRY_REFUSE(cuLaunchCooperativeKernel)
DRY_REFUSE(cuLaunchKernel)
DRY_REFUSE(cuLinkAddData_v2)
DRY_REFUSE(cuLinkComplete)
DRY_REFUSE(cuLinkCreate_v2)
DRY_REFUSE(cuModuleGetFunction)
DRY_REFUSE(cuModuleLoad)
DRY_REFUSE(cuModuleLoadData)
DRY_REFUSE(cuModuleLoadDataEx)
DRY_REFUSE(cuModuleUnload)
DRY_REFUSE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
DRY_REFUSE(cuPointerGetAttribute)
DRY_REFUSE(cuTensorMapEncodeTiled)
DRY_REFUSE(nvrtcAddNameExpression)
DRY_REFUSE(nvrtcCompileProgram)
DRY_REFUSE(nvrtcCreateProgram)
DRY_REFUSE(nvrtcDestroyProgram)
DRY_REFUSE(nvrtcGetCUBIN)
DRY_REFUSE(nvrtcGetCUBINSize)
DRY_REFUSE(nvrtcGetLoweredName)
DRY_REFUSE(nvrtcGetPTX)
DRY_REFUSE(nvrtcGetPTXSize)
DRY_REFUSE(nvrtcGetProgramLog)
DRY_REFUSE(nvrtcGetProgramLogSize)
DRY_REFUSE(nvrtcVersion)
DRY_REFUSE(nvshmem_init)
DRY_REFUSE(nvshmemi_get_mem_handle)
DRY_EXPORT int nvshmemi_device_only_state[4096];
int nvshmemi_device_only_state[4096];
