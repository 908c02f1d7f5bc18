package main

// lock is held by one owner at a time, until it is given back or its time is over by Postgres' clock.
// Rule: docs/behaviour/locks.md.
type lock struct {
	owner string
	// Its time is over at some moment between these two.
	endsFromMs, endsToMs int64
}

func stepLock(state any, made operation) []any {
	held, given := state.(lock), made.Input
	fromMs, toMs := made.CallMs-slackMs, made.ReturnMs+slackMs
	isDone := made.isPending() || made.Output.Done
	mayBeOver := held.owner == "" || toMs >= held.endsFromMs
	mayBeHeld := held.owner != "" && fromMs < held.endsToMs
	// Seen as held at this operation, it was not over when that began.
	stillHeld := held
	stillHeld.endsFromMs = max(held.endsFromMs, fromMs)
	switch given.Kind {
	case "acquire":
		if !isDone {
			return allowedIf(mayBeHeld, stillHeld)
		}
		if held.owner != "" {
			fromMs = max(fromMs, held.endsFromMs)
		}
		return allowedIf(mayBeOver, lock{given.Owner, fromMs + given.Ms, toMs + given.Ms})
	case "extend":
		isOwn := held.owner == given.Owner
		if isDone {
			return allowedIf(isOwn && mayBeHeld, lock{given.Owner, fromMs + given.Ms, toMs + given.Ms})
		}
		if isOwn {
			held.endsToMs = min(held.endsToMs, toMs)
		}
		return allowedIf(!isOwn || mayBeOver, held)
	case "release":
		if held.owner == given.Owner {
			return only(lock{})
		}
		return only(held)
	}
	return nil
}
