package main

// ledgerKey is an idempotency key. Spent, it lets no second call through until it is given back: by its own call, if that had no effect,
// or by a person. Rule: docs/behaviour/requests.md, "Idempotency keys".
type ledgerKey struct {
	isSpent bool
	// Whose reservation it is.
	owner    string
	answered bool
	// The last answer was stored no later than this.
	answeredByMs int64
	// With a provider that knows keys: whose call is under way.
	turn string
}

func (key ledgerKey) prior() string {
	if !key.isSpent {
		return "none"
	}
	if key.answered {
		return "answered"
	}
	return "unknown"
}

func stepLedger(state any, made operation) []any {
	key, given := state.(ledgerKey), made.Input
	switch given.Kind {
	case "reserve":
		if made.isPending() || made.Output.Done {
			if key.isSpent {
				return nil
			}
			return key.spentBy(given.Owner, made.CallMs)
		}
		return allowedIf(key.isSpent && made.Output.Prior == key.prior(), key)
	case "end":
		return only(key.ended(given.Owner, given.Status, made.ReturnMs))
	case "let go":
		return key.letGo(given.Owner)
	case "forget":
		next := key
		next.isSpent, next.owner, next.answered = false, "", false
		if made.isPending() || made.Output.Done {
			return allowedIf(key.isSpent, next)
		}
		return allowedIf(!key.isSpent, key)
	case "record":
		return allowedIf(made.isPending() || made.Output.Prior == key.prior(), key)
	}
	return nil
}

// spentBy: an answer of the same millisecond counts as one to the new reservation, too.
func (key ledgerKey) spentBy(owner string, callMs int64) []any {
	next := ledgerKey{isSpent: true, owner: owner, answeredByMs: key.answeredByMs, turn: owner}
	if callMs-slackMs > key.answeredByMs {
		return only(next)
	}
	answered := next
	answered.answered = true
	return []any{next, answered}
}

func (key ledgerKey) ended(owner, how string, returnMs int64) ledgerKey {
	next := key
	if next.turn == owner {
		next.turn = ""
	}
	switch {
	case how == "answered":
		next.answered = key.isSpent
		next.answeredByMs = returnMs + slackMs
	case how == "refused" && key.isSpent && key.owner == owner:
		next.isSpent, next.owner, next.answered = false, "", false
	}
	return next
}

// letGo: a caller that failed before its call gives back the turn, and the key if it has spent it; or it has had neither.
func (key ledgerKey) letGo(owner string) []any {
	states := []any{key}
	if key.turn == owner {
		key.turn = ""
		states = append(states, key)
	}
	if key.isSpent && key.owner == owner {
		key.isSpent, key.owner, key.answered = false, "", false
		states = append(states, key)
	}
	return states
}

// stepTurns: the provider knows keys, too. A key whose call's effect is not known may be sent again, by one caller at a time.
func stepTurns(state any, made operation) []any {
	key, given := state.(ledgerKey), made.Input
	if given.Kind != "reserve" {
		return stepLedger(state, made)
	}
	isFree := !key.answered && key.turn == ""
	if !made.isPending() && !made.Output.Done {
		if !key.isSpent && made.Output.Prior == "unknown" {
			// It has spent the key, and a repeat was quicker to take the turn.
			next := key
			next.isSpent, next.owner, next.answered = true, given.Owner, false
			return only(next)
		}
		return allowedIf(key.isSpent && !isFree && made.Output.Prior == key.prior(), key)
	}
	if !key.isSpent {
		states := key.spentBy(given.Owner, made.CallMs)
		if made.isPending() {
			// It may have ended before it took its turn.
			for _, state := range states {
				spent := state.(ledgerKey)
				spent.turn = ""
				states = append(states, spent)
			}
		}
		return states
	}
	next := key
	next.turn = given.Owner
	return allowedIf(isFree, next)
}
