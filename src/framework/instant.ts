/**
 * A moment as it is given: on the command line, over HTTP, in a workflow's input, in code. One rule for all of them.
 * Rule: docs/behaviour/operator-api.md, "Moments".
 */
import { z } from 'zod'

/** What is allowed, for messages. */
export const INSTANT = 'a moment in ISO 8601 with its offset, of the years 1 to 9999, such as 2031-06-01T12:00:00Z'

/** ISO 8601 writes a year with four digits, and Postgres reads no year 0. */
const FIRST = Date.parse('0001-01-01T00:00:00Z')
const LAST = Date.parse('9999-12-31T23:59:59.999Z')

/** Whether it is a valid date that can be stored and written. An offset may lead out of the years that the text has. */
export function isInstant(value: unknown): value is Date {
  return value instanceof Date && value.getTime() >= FIRST && value.getTime() <= LAST
}

export const Instant = z.iso
  .datetime({ offset: true, error: INSTANT })
  .transform((text) => new Date(text))
  .refine(isInstant, { error: INSTANT })

/** What a filter by time allows, for messages. */
export const INSTANT_OR_AGO = `${INSTANT}, or a length of time back such as 90m, 24h or 7d`

const AGO = /^([1-9]\d{0,5})([mhd])$/
const UNIT_SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400 }

/**
 * `--since` and `--until`: a moment, or how long ago it was, in minutes, hours or days.
 *
 * @param now read once a text is given
 */
export const instantOrAgo = (now: () => number = Date.now) =>
  z.union(
    [
      Instant,
      z
        .string()
        .regex(AGO)
        .transform((text) => new Date(now() - agoMs(text)))
        .refine(isInstant, { error: INSTANT_OR_AGO }),
    ],
    {
      error: INSTANT_OR_AGO,
    },
  )

function agoMs(text: string): number {
  const [, count, unit = ''] = AGO.exec(text) ?? []
  return Number(count) * (UNIT_SECONDS[unit] as number) * 1_000
}
