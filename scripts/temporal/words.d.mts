/** Null where help is asked for. @throws Error with a line for words that don't fit */
export function inputOf(shapes: readonly string[], words: readonly string[]): Record<string, unknown> | null
