/** What the words of a command line may be. Each parser says what is allowed and what was given. */

import { InvalidArgumentError } from 'commander'
import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { INSTANT, Instant } from '../../framework/instant.ts'
import { lossInParsing } from '../../framework/json.ts'

type Json = Parameters<Integrations['syncs']['setCursor']>[1]

/** Up to 2^53 - 1, the greatest whole number that JavaScript holds exactly. */
const Id = z
  .string()
  .regex(/^[1-9]\d{0,15}$/)
  .transform(Number)
  .refine(Number.isSafeInteger)

const id = (text: string): number =>
  parsed(Id, text, `an id is a positive whole number of at most ${Number.MAX_SAFE_INTEGER}`)

export const integrationId = (text: string): number => id(text)

export const webhookId = (text: string): number => id(text)

export const syncItemId = (text: string): number => id(text)

/** For an argument that may be repeated; an item named twice is one. */
export const syncItemIds = (text: string, before: readonly number[] = []): readonly number[] => [
  ...new Set([...before, id(text)]),
]

export const syncRunId = (text: string): number => id(text)

export const incidentId = (text: string): number => id(text)

export const eventId = (text: string): number => id(text)

const GivenUpLimit = Id.refine((value) => value <= 500)

export const givenUpLimit = (text: string): number =>
  parsed(GivenUpLimit, text, 'a whole number from 1 to 500 is allowed')

export const limit = (text: string): number => parsed(Id, text, 'a whole number of at least 1 is allowed')

const Count = Id.refine((value) => value <= 2_147_483_647)

export const count = (text: string): number => parsed(Count, text, 'a whole number from 1 to 2147483647 is allowed')

const SampleSize = Id.refine((value) => value <= 100)

export const sampleSize = (text: string): number => parsed(SampleSize, text, 'a whole number from 1 to 100 is allowed')

export const linkHours = (text: string): number =>
  parsed(LinkHours, text, 'whole hours from 1 to 168 (7 days) are allowed')

const LinkHours = Id.refine((value) => value <= 168)

export const tries = (text: string): number => parsed(Tries, text, 'a whole number from 1 to 1000 is allowed')

const Tries = Id.refine((value) => value <= 1_000)

/** Wrapped: commander takes a bare null for an option that was not given. */
export const jsonValue = (text: string): { readonly json: Json } =>
  parsed(
    JsonText,
    text,
    `JSON is allowed, a text in quotes of its own, such as '"2031-06-01T12:00:00Z"', and so a number of more than 15 digits; at most 500 levels`,
  )

const JsonText = z.string().transform((text, context) => {
  try {
    const json = JSON.parse(text) as Json
    if (lossInParsing(text) === null) return { json }
    context.addIssue({ code: 'custom', message: 'not kept as it is' })
    return z.NEVER
  } catch {
    context.addIssue({ code: 'custom', message: 'no JSON' })
    return z.NEVER
  }
})

export const instant = (text: string): Date => parsed(Instant, text, `${INSTANT}, is allowed`)

const Owner = z
  .string()
  .regex(/^[^:\s].*:[1-9]\d{0,15}$/)
  // A type may hold colons, as class names of some languages do: the last one ends it.
  .transform((text) => {
    const end = text.lastIndexOf(':')
    return { type: text.slice(0, end), id: Number(text.slice(end + 1)) }
  })
  .refine(({ type, id }) => type.length <= 255 && Number.isSafeInteger(id))

export const owner = (text: string): { type: string; id: number } =>
  parsed(Owner, text, 'an owner is its type, a colon and its id, such as team:7')

function parsed<S extends z.ZodType>(schema: S, text: string, allowed: string): z.output<S> {
  const result = schema.safeParse(text)
  if (!result.success) throw new InvalidArgumentError(`${allowed}, "${text}" was given`)
  return result.data
}
