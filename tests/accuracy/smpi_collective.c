/* smpi_collective all_reduce|reduce_scatter|all_gather|broadcast|alltoall BYTES: one collective of floats, with nccl-tests' size, timed by the
   simulated clock; prints seconds. All ranks begin at the same moment: a barrier lets go of one after the other where links differ. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int ranks;

/* A whole buffer has `count` elements, and each rank's block an equal part of them. */
static int run(const char* collective, float* in, float* out, int count) {
  const int each = count / ranks;
  if (strcmp(collective, "all_reduce") == 0)
    return MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (strcmp(collective, "all_gather") == 0)
    return MPI_Allgather(in, each, MPI_FLOAT, out, each, MPI_FLOAT, MPI_COMM_WORLD);
  if (strcmp(collective, "broadcast") == 0)
    return MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (strcmp(collective, "alltoall") == 0)
    return MPI_Alltoall(in, each, MPI_FLOAT, out, each, MPI_FLOAT, MPI_COMM_WORLD);
  if (strcmp(collective, "reduce_scatter") != 0) return MPI_ERR_ARG;
  int* counts = (int*)malloc((size_t)ranks * sizeof(int));
  for (int i = 0; i < ranks; ++i) counts[i] = each;
  const int status = MPI_Reduce_scatter(in, out, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  free(counts);
  return status;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int count = (int)(atof(argv[2]) / 4);
  float* in = (float*)SMPI_SHARED_MALLOC((size_t)count * 4);
  float* out = (float*)SMPI_SHARED_MALLOC((size_t)count * 4);
  MPI_Barrier(MPI_COMM_WORLD);
  const struct timespec rest = {0, (long)((1 - MPI_Wtime()) * 1e9)};
  nanosleep(&rest, NULL);
  const double begin = MPI_Wtime();
  const int status = run(argv[1], in, out, count);
  double mine = MPI_Wtime() - begin, longest;
  MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0 && status == MPI_SUCCESS) printf("seconds %.12g\n", longest);
  SMPI_SHARED_FREE(in);
  SMPI_SHARED_FREE(out);
  MPI_Finalize();
  return 0;
}
