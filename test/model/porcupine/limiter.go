package main

// Where a moment of Postgres' clock lies between two of a caller's: each is cut to whole milliseconds.
const slackMs = 1

// limiter counts calls in fixed windows. Postgres reads its clock once in each statement: the moment lies between the operation's two
// ends, and what the answer says of time tells it exactly.
// Rule: docs/behaviour/requests.md, "Admission", "Rate limit" and "Joined statements".
type limiter struct {
	startMs int64
	count   int64
	// No admission by the integration's own statement is judged before this moment: it reads the clock under the lock.
	lastMs int64
	// The provider's quiet ends between these two; 0: there was none.
	quietFromMs, quietToMs int64
}

func stepLimiter(state any, made operation) []any {
	now, given := state.(limiter), made.Input
	fromMs, toMs := made.CallMs-slackMs, made.ReturnMs+slackMs
	if given.Kind == "quiet" {
		return only(now.quieter(fromMs+given.Ms, toMs+given.Ms))
	}
	isOwn := given.Kind == "admit"
	if !isOwn && !made.isPending() && !made.Output.Done {
		// Left to the integration's own statement.
		return only(now)
	}
	if isOwn {
		fromMs = max(fromMs, now.lastMs)
	}
	if isOwn && made.Output.Refusal == "suppressed" {
		return now.suppressed(fromMs, toMs, made.Output.Ms)
	}
	fromMs = max(fromMs, now.quietFromMs)
	var next []any
	for start := fromMs / given.Ms * given.Ms; start <= toMs; start += given.Ms {
		next = append(next, now.admits(made, max(start, now.startMs), max(fromMs, start), min(toMs, start+given.Ms-1), isOwn)...)
	}
	return next
}

// admits judges the callers at a moment between fromMs and toMs, which lies in one window.
func (now limiter) admits(made operation, startMs, fromMs, toMs int64, isOwn bool) []any {
	given, answer := made.Input, made.Output
	used := int64(0)
	if startMs == now.startMs {
		used = now.count
	}
	admitted := min(given.Callers, max(0, given.Limit-used))
	units := int64(0)
	if !isOwn {
		if admitted < given.Callers {
			return nil
		}
		if given.Limit >= 1000 && (used+given.Callers+given.More)*8 <= given.Limit {
			units = given.More
		}
	}
	if !made.isPending() {
		// The window's end is told with a refusal, and by a joined statement.
		if !isOwn || answer.Refusal != "" {
			moment := startMs + given.Ms - answer.Ms
			fromMs, toMs = max(fromMs, moment), min(toMs, moment)
		}
		isRefused := admitted < given.Callers
		if answer.Admitted != admitted || answer.Given != units || (answer.Refusal != "") != isRefused {
			return nil
		}
	}
	if fromMs > toMs {
		return nil
	}
	next := now
	next.startMs, next.count = startMs, used+admitted+units
	if isOwn {
		next.lastMs = fromMs
	}
	return only(next)
}

func (now limiter) suppressed(fromMs, toMs, leftMs int64) []any {
	next := now
	next.quietFromMs, next.quietToMs = max(now.quietFromMs, fromMs+leftMs), min(now.quietToMs, toMs+leftMs)
	next.lastMs = max(fromMs, next.quietFromMs-leftMs)
	return allowedIf(leftMs > 0 && next.quietFromMs <= next.quietToMs, next)
}

// quieter: a quiet only ever ends later.
func (now limiter) quieter(fromMs, toMs int64) limiter {
	next := now
	next.quietFromMs, next.quietToMs = max(now.quietFromMs, fromMs), max(now.quietToMs, toMs)
	return next
}
