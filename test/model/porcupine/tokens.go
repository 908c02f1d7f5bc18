package main

// tokens are an integration's. One refresh at a time, unless the lock of an earlier one is over; and none is made with tokens that
// another refresh has replaced. Rule: docs/behaviour/oauth.md, "Refresh".
type tokens struct {
	current string
	// Whose refresh is under way, and when its lock is over at the earliest.
	refreshing string
	overMs     int64
}

func stepTokens(state any, made operation) []any {
	stored, given := state.(tokens), made.Input
	next := stored
	switch given.Kind {
	case "begin":
		next.refreshing, next.overMs = given.Owner, given.AskedMs+given.Ms
		mayBegin := stored.refreshing == "" || made.ReturnMs+slackMs >= stored.overMs
		return allowedIf(mayBegin && given.Token == stored.current, next)
	case "end":
		// A late one is not stored where another refresh was quicker.
		if stored.current == given.Token {
			next.current = given.New
		}
		if stored.refreshing == given.Owner {
			next.refreshing = ""
		}
		return allowedIf(made.isPending() || made.Output.Token == next.current, next)
	case "get":
		// The caller was refused with its token, so it needs another one.
		return allowedIf(made.isPending() || (made.Output.Token == stored.current && made.Output.Token != given.Token), stored)
	case "read":
		return allowedIf(made.isPending() || made.Output.Token == stored.current, stored)
	}
	return nil
}
