// What foreduce uses of NCCL (its API reference, 2.28), for nccl.cpp.
#pragma once

#include <cuda_runtime_api.h>

enum ncclResult_t { ncclSuccess = 0, ncclInvalidArgument = 4, ncclRemoteError = 6, ncclInProgress = 7 };
enum ncclDataType_t { ncclInt32 = 2, ncclHalf = 6, ncclFloat = 7, ncclDouble = 8, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum = 0 };
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }
using ncclComm_t = struct StandInComm*;

extern "C" {
const char* ncclGetErrorString(ncclResult_t);
ncclResult_t ncclGetVersion(int*);
ncclResult_t ncclGetUniqueId(ncclUniqueId*);
ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int ranks, ncclUniqueId, int rank, ncclConfig_t*);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t each, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t each, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t, int root, ncclComm_t, cudaStream_t);
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t, int peer, ncclComm_t, cudaStream_t);
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t, int peer, ncclComm_t, cudaStream_t);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
}
