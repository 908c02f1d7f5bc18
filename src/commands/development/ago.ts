import { z } from 'zod'
import { Instant, isInstant } from '../../framework/instant.ts'
import type { Field } from '../fields.ts'

const UNIT_SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400 }
const ALLOWED = 'a time ago such as 90m, 24h or 7d, or a moment in ISO 8601 with its offset is allowed'

/** A moment: how long ago it was, or itself. */
export const ago = (about: string): Field<Date> => ({
  about,
  placeholder: 'ago',
  read: (word) => word,
  schema: z.string({ error: ALLOWED }).transform((word, context): Date => {
    const [, count, unit = ''] = /^([1-9]\d{0,5})([mhd])$/.exec(word) ?? []
    const moment =
      count === undefined
        ? Instant.safeParse(word).data
        : new Date(Date.now() - Number(count) * (UNIT_SECONDS[unit] as number) * 1_000)
    if (isInstant(moment)) return moment
    context.addIssue({ code: 'custom', message: ALLOWED })
    return z.NEVER
  }),
})
