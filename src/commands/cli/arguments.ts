/** What the words of a command line may be. Each parser says what is allowed and what was given. */

import { InvalidArgumentError } from 'commander'
import { z } from 'zod'
import { INSTANT, Instant } from '../../framework/instant.ts'
import { ALLOWED_PROVIDER_IDENTIFIERS, isProviderIdentifier } from '../../integrations/rules.ts'
import type { Part } from '../scaffold/names.ts'
import { PARTS } from '../scaffold/names.ts'

/** Up to 2^53 - 1, the greatest whole number that JavaScript holds exactly. */
const Id = z
  .string()
  .regex(/^[1-9]\d{0,15}$/)
  .transform(Number)
  .refine(Number.isSafeInteger)

const id = (text: string): number =>
  parsed(Id, text, `an id is a positive whole number of at most ${Number.MAX_SAFE_INTEGER}`)

export const integrationId = (text: string): number => id(text)

export const limit = (text: string): number => parsed(Id, text, 'a whole number of at least 1 is allowed')

const Count = Id.refine((value) => value <= 2_147_483_647)

export const minutes = (text: string): number => parsed(Count, text, 'whole minutes of at least 1 are allowed')

export const count = (text: string): number => parsed(Count, text, 'a whole number from 1 to 2147483647 is allowed')

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

const ProviderIdentifier = z.string().refine(isProviderIdentifier)

export const providerIdentifier = (text: string): string =>
  parsed(ProviderIdentifier, text, ALLOWED_PROVIDER_IDENTIFIERS)

const NO_PART = 'none'

const ProviderParts = z.union([
  z.literal(NO_PART).transform((): readonly Part[] => []),
  z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(PARTS))),
])

/** For an option that may be repeated. */
export const providerParts = (text: string, before: readonly Part[] = []): readonly Part[] => [
  ...before,
  ...parsed(ProviderParts, text, `any of ${PARTS.join(', ')} with commas between, or ${NO_PART}, are allowed`),
]

function parsed<S extends z.ZodType>(schema: S, text: string, allowed: string): z.output<S> {
  const result = schema.safeParse(text)
  if (!result.success) throw new InvalidArgumentError(`${allowed}, "${text}" was given`)
  return result.data
}
