/** `authenticatedUser()`. Rule: docs/behaviour/identity.md. */
import assert from 'node:assert/strict'
import type { IdentifiesAuthenticatedUser } from '../../providers/contracts.ts'
import type { Chapter } from './conformance-check.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'
import { answering } from './played-faults.ts'

export function identityChapter(): Chapter {
  return {
    contract: 'IdentifiesAuthenticatedUser',
    checks: [
      {
        name: 'gives an id that is a text and not empty, and texts or null beside it',
        async run(bench) {
          const provider = bench.provider as IdentifiesAuthenticatedUser
          const integration = await bench.create()
          const given: unknown = await bench.inTime('authenticatedUser()', () =>
            provider.authenticatedUser(integration),
          )
          assert(typeof given === 'object' && given !== null, `authenticatedUser() gave ${shown(given)}`)
          const { id, name, email, username } = given as Record<string, unknown>
          assert(
            typeof id === 'string' && id !== '',
            `authenticatedUser() must give an \`id\` that is a text of at least one character; it gave ${shown(id)}. A number is made one by String().`,
          )
          for (const [field, value] of Object.entries({ name, email, username }))
            assert(
              value === null || typeof value === 'string',
              `authenticatedUser() must give a text or null as \`${field}\`; it gave ${shown(value)}`,
            )
        },
      },
      {
        name: 'fails loudly where the credentials are refused',
        async run(bench) {
          const provider = bench.provider as IdentifiesAuthenticatedUser
          const integration = await bench.create()
          const outcome = await bench.answeredBy(answering(401), () =>
            bench.withoutRetries(() => outcomeOf(() => provider.authenticatedUser(integration))),
          )
          assert.equal(
            outcome.kind,
            'threw',
            `authenticatedUser() must throw where the provider answers 401, so that nobody takes it for an account; it ${wordsFor(outcome)}`,
          )
        },
      },
    ],
  }
}
