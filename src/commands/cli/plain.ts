/** Text of foreign origin, made fit for a terminal. Rule: docs/commands.md, "Output". */

/**
 * Control characters (they move a terminal's cursor or set its colours), and those that turn the direction of a text
 * round or have no width: what a provider or a stranger sent must not look like something of ours.
 */
const NOT_FOR_A_TERMINAL = /[\p{Cc}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]/gu

/** A text of foreign origin, in one line, without what a terminal would obey. */
export function plain(text: string): string {
  return text.replace(/\r?\n|\t/g, ' ').replace(NOT_FOR_A_TERMINAL, '')
}

/** As {@link plain}, but lines stay lines. */
export function plainLines(text: string): string {
  return text.split('\n').map(plain).join('\n')
}
