import { z } from 'zod'

/** Trouble the sandbox makes on order. Faults are consumed in the order they were given: the first that matches strikes. */
export const faultSchema = z.strictObject({
  match: z
    .string()
    .regex(
      /^(\*|[A-Z]+) \/?\S+$/,
      'must be "<METHOD or *> <path>", with * for any text, such as "GET /repos/*/issues*"',
    )
    .default('* *')
    .describe('Method and path; with a ? in it the query counts too. A path by id matches as /repos/{owner}/{repo}.'),
  times: z.int().min(1).default(1).describe('How many requests it strikes.'),
  status: z.int().min(200).max(599).optional().describe('Answer this and do nothing.'),
  headers: z.record(z.string(), z.string()).default({}).describe('Added to the answer, real or not.'),
  body: z.unknown().optional().describe('Answered with `status`: an object as JSON, a string as it is.'),
  delayMs: z.int().min(0).max(600_000).default(0).describe('Wait this long first; alone, the answer is the real one.'),
  drop: z
    .union([z.boolean(), z.literal('after')])
    .default(false)
    .describe('true: cut the connection before anything is done; "after": do it, then cut the connection.'),
})

export type Fault = z.infer<typeof faultSchema>

export interface FaultList {
  add(faults: Fault[]): void
  clear(): void
  /** Those still to strike, with the `times` left. */
  pending(): Fault[]
  strike(method: string, paths: string[], query: string): Fault | null
}

export function createFaultList(): FaultList {
  let faults: Fault[] = []
  return {
    add(added) {
      faults.push(...added.map((fault) => ({ ...fault })))
    },
    clear() {
      faults = []
    },
    pending: () => faults.map((fault) => ({ ...fault })),
    strike(method, paths, query) {
      const fault = faults.find((candidate) => paths.some((path) => matches(candidate.match, method, path, query)))
      if (fault === undefined) return null
      fault.times--
      if (fault.times === 0) faults = faults.filter((other) => other !== fault)
      return fault
    },
  }
}

function matches(pattern: string, method: string, path: string, query: string): boolean {
  const [wantedMethod, wantedPath] = pattern.split(' ') as [string, string]
  if (wantedMethod !== '*' && wantedMethod !== method) return false
  const literal = wantedPath.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${literal.join('.*')}$`).test(wantedPath.includes('?') ? path + query : path)
}
