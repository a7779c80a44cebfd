package leaderelection

import "context"

type tokenKey struct{}

// Token returns the fencing token of the term in which the work runs: the
// lease's count of transitions. Later terms have greater ones. Send it along
// with what only a leader may do, and let the receiver remember the greatest and
// refuse smaller ones. It reports false where ctx is not that of the work.
func Token(ctx context.Context) (token int64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(int64)
	return token, ok
}

func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}
