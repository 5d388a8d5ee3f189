/* embed DIR FILE: continues tokens with a model, saves what it has read to FILE, and goes on from there. */
#include <deltaproduct/c.h>
#include <stdio.h>

static int complain(deltaproduct_session* session) {
  fprintf(stderr, "embed: %s\n", deltaproduct_error());
  deltaproduct_close(session);
  return 2;
}

int main(int argc, char** argv) {
  const int64_t prompt[] = {1, 5, 7};
  deltaproduct_session* session;
  if (argc != 3) return fprintf(stderr, "usage: embed DIR FILE\n"), 2;
  session = deltaproduct_open(argv[1], 0);
  if (!session || deltaproduct_prompt(session, prompt, 3)) return complain(session);
  for (int i = 0; i < 10; ++i) {
    const int64_t token = deltaproduct_most_likely(session);
    printf("%s%ld", i ? " " : "", (long)token);
    if (deltaproduct_step(session, token)) return complain(session);
    if (i == 4 && (deltaproduct_save(session, argv[2]) || deltaproduct_restore(session, argv[2]))) return complain(session);
  }
  printf("\n");
  deltaproduct_close(session);
  return 0;
}
