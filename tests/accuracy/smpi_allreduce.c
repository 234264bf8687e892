/* smpi_allreduce BYTES: one MPI_Allreduce of floats, timed by the simulated clock; prints seconds. All ranks begin at the same moment: a
   barrier lets go of one after the other where links differ. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int count = (int)(atof(argv[1]) / 4);
  float* in = (float*)SMPI_SHARED_MALLOC((size_t)count * 4);
  float* out = (float*)SMPI_SHARED_MALLOC((size_t)count * 4);
  MPI_Barrier(MPI_COMM_WORLD);
  const struct timespec rest = {0, (long)((1 - MPI_Wtime()) * 1e9)};
  nanosleep(&rest, NULL);
  const double begin = MPI_Wtime();
  MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  double mine = MPI_Wtime() - begin, longest;
  MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("seconds %.12g\n", longest);
  SMPI_SHARED_FREE(in);
  SMPI_SHARED_FREE(out);
  MPI_Finalize();
  return 0;
}
