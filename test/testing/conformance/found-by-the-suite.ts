/** Puts broken providers through the checks of their contract: each way to break it is found by the checks for it, and by no other. */
import { expect } from 'vitest'
import type { Broken } from './broken.ts'
import type { Suite } from './recorded-suite.ts'

/** @param asked only these rules; default: all of the contract that the provider does not leave out */
export async function expectFound(
  suite: Suite,
  { contract, provider, fixtures, breaks, says = [], leavesOut = [] }: Broken,
  asked?: readonly string[],
): Promise<void> {
  const results = await suite.of(
    () => new provider(),
    fixtures,
    (each, rule) => each === contract && !leavesOut.includes(rule) && (asked?.includes(rule) ?? true),
  )
  const failed = results.filter(({ error }) => error !== null)
  expect(failed.map(({ rule, error }) => (breaks.includes(rule) ? rule : `${rule}: ${String(error)}`))).toEqual(breaks)
  for (const { error } of failed) expect(error).toMatchObject({ code: 'ERR_ASSERTION' })
  const messages = failed.map(({ error }) => (error as Error).message)
  for (const said of says)
    expect(
      messages.some((message) => said.test(message)),
      `${said} of ${messages.join('\n')}`,
    ).toBe(true)
}
