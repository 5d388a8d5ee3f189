/* The C interface: one sequence decoded with a model from a directory.
 *
 * Ownership: deltaproduct_open and deltaproduct_fork give a handle that the caller closes. Arrays that are passed in stay
 * the caller's; what deltaproduct_logits returns belongs to the handle.
 * Threads: a handle is used by one thread at a time, and a fork counts as the handle it came from. Handles that were opened
 * apart are independent; they share nothing but the page cache, in which a model's file is only once.
 * Errors: functions return 0, or 1 for a mistake of the caller's (a file, an option, a token) and 2 for other failures (memory,
 * a full disk); those that return a pointer return NULL. deltaproduct_error() then has one sentence that says what was wrong
 * where. After a failure the handle is as it was before. Nothing here exits, aborts or prints. */
#ifndef DELTAPRODUCT_C_H_
#define DELTAPRODUCT_C_H_
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct deltaproduct_session deltaproduct_session;

/* A directory with config.json and weights. threads: 0 for as many as there are cores. */
deltaproduct_session* deltaproduct_open(const char* directory, int threads);
/* The number of tokens: they are 0 .. size - 1. */
int64_t deltaproduct_vocabulary_size(const deltaproduct_session* session);

/* Takes in `count` tokens. None is taken in if one of them is outside of the vocabulary. */
int deltaproduct_prompt(deltaproduct_session* session, const int64_t* tokens, size_t count);
/* Takes in one token. */
int deltaproduct_step(deltaproduct_session* session, int64_t token);
/* Of the token after those taken in, [vocabulary size]; NULL before the first. Valid until the session changes. */
const float* deltaproduct_logits(const deltaproduct_session* session);
/* The most likely next token, or -1 before the first. */
int64_t deltaproduct_most_likely(const deltaproduct_session* session);

/* Writes what was taken in to a file, and replaces it by that of a file written with the same model. */
int deltaproduct_save(const deltaproduct_session* session, const char* file);
int deltaproduct_restore(deltaproduct_session* session, const char* file);
/* A session that goes on from here independently, with the same model. */
deltaproduct_session* deltaproduct_fork(const deltaproduct_session* session);
/* NULL is allowed. */
void deltaproduct_close(deltaproduct_session* session);

/* What went wrong in this thread's latest call that failed; "" if none did. Valid until the thread's next call. */
const char* deltaproduct_error(void);

#ifdef __cplusplus
}
#endif
#endif /* DELTAPRODUCT_C_H_ */
