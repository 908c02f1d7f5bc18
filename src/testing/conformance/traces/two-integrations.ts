/** One object serves all integrations: nothing of one may be sent for another. Rule: docs/writing-a-provider.md, "Registering it". */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { MIN_SECRET_LENGTH, secretsOf } from '../../../framework/redaction.ts'
import type { IntegrationProvider } from '../../../providers/contracts.ts'
import type { Credentials, Integration } from '../../../providers/integration.ts'
import type { PlayedApi } from '../../played-transport.ts'
import type { Bench } from '../bench.ts'
import type { Check, Subject } from '../conformance-check.ts'
import { isIsoTime } from '../oauth.ts'
import { given } from '../outcome-checks.ts'
import { round } from './round.ts'

/** The check that two integrations are kept apart, or why it is not made. */
export function apartChecks(subject: Subject): { readonly checks: readonly Check[]; readonly todo?: string } {
  const { credentials, otherCredentials } = subject.fixtures
  if (otherCredentials !== undefined) return { checks: [apart(otherCredentials)] }
  const keys = Object.keys(credentials).filter((key) => canDiffer(key, credentials[key]))
  const { webhook_secret: _, ...own } = credentials
  if (keys.length === 0 && secretsOf(own).length === 0) return { checks: [] }
  const changed = changedCredentials(subject.provider(), credentials, keys)
  if (changed !== null) return { checks: [apart(changed)] }
  return {
    checks: [],
    todo: 'does not show whether one integration is kept apart from another: give the fixture `otherCredentials`, since `credentialsSchema` takes no changed ones',
  }
}

const apart = (otherCredentials: Credentials): Check => ({
  name: 'sends no credential of one integration for another, in turn and at once',
  async run(bench) {
    const { api, credentials } = bench.subject.fixtures
    const one: Held = { integration: await bench.create(), credentials }
    const other: Held = { integration: await bench.create(otherCredentials), credentials: otherCredentials }
    const wire = new WatchedWire(bench, api)
    await bench.answeredBy(wire.api, () =>
      bench.withoutRetries(async () => {
        // What is thrown, such as for a token that the api does not know, is of no interest here.
        await round(bench, one.integration)
        await round(bench, other.integration)
        await Promise.all([round(bench, one.integration), round(bench, other.integration)])
      }),
    )
    const wrong = [...wire.foreignTo(one, other), ...wire.foreignTo(other, one)]
    assert.deepEqual(
      wrong,
      [],
      `one object serves all integrations, so it must keep nothing that belongs to one of them, such as a token or a client; of another integration's credentials it sent ${wrong.join('; ')}`,
    )
  },
})

interface Held {
  readonly integration: Integration
  readonly credentials: Credentials
}

/** What was sent for each integration, and answered. */
class WatchedWire {
  readonly api: PlayedApi
  readonly #sent: { readonly of: number | null; readonly what: string; readonly text: string }[] = []
  readonly #answers = new Map<number | null, string[]>()
  /** Both integrations have these. */
  readonly #shared: readonly string[]

  constructor(bench: Bench, api: PlayedApi) {
    const { metadata, webhook } = bench.subject.fixtures
    this.#shared = secretsOf([metadata, webhook?.body])
    this.api = async (request) => {
      const of = bench.attempts.current?.integrationId ?? null
      const { method, url, headers } = request
      const { origin, pathname } = new URL(url)
      const text = [url, ...[...headers].flat(), await request.clone().text()].join('\n')
      this.#sent.push({ of, what: `${method} ${origin}${pathname}`, text })
      const answer = await api(request)
      this.#answers.set(of, [...(this.#answers.get(of) ?? []), await answer.clone().text()])
      return answer
    }
  }

  /** Credentials of the other one that were sent for this one. What it was given or answered with is its own. */
  foreignTo({ integration: { id }, credentials }: Held, other: Held): string[] {
    const own = [...secretsOf(credentials), ...this.#shared, ...(this.#answers.get(id) ?? [])].join('\n')
    const foreign = Object.entries(other.credentials)
      .filter(([key, value]) => !isDeepStrictEqual(value, credentials[key]))
      .map(([key, value]) => ({ key, forms: secretsOf([value]).filter((form) => !own.includes(form)) }))
    const sent = this.#sent.filter(({ of }) => of === id)
    return [
      ...new Set(
        foreign.flatMap(({ key, forms }) =>
          sent
            .filter(({ text }) => forms.some((form) => text.includes(form)))
            .map(({ what }) => `credentials.${key} in ${what}`),
        ),
      ),
    ]
  }
}

/** The secret of a webhook is not sent; an address or a key in PEM would be none with another end. */
function canDiffer(key: string, value: unknown): value is string {
  const isText = typeof value === 'string' && value.length >= MIN_SECRET_LENGTH && !isIsoTime(value)
  return isText && key !== 'webhook_secret' && !URL.canParse(value) && !value.includes('-----BEGIN')
}

/** Each text with another end where the schema takes it; null: it takes none. */
function changedCredentials(
  { credentialsSchema }: IntegrationProvider,
  credentials: Credentials,
  keys: readonly string[],
): Credentials | null {
  const isTaken = (changed: Credentials): boolean => {
    // A schema that throws is another check's.
    const outcome = given(() => credentialsSchema?.safeParse(changed).success !== false)
    return outcome.kind === 'gave' && outcome.value
  }
  let changed = credentials
  for (const key of keys) {
    const next: Credentials = { ...changed, [key]: withOtherEnd(String(changed[key])) }
    if (isTaken(next)) changed = next
  }
  return changed === credentials ? null : changed
}

/** Hex stays hex, and a letter a letter: a schema may know the form. */
const ALPHABETS = ['0123456789', 'abcdef', 'ghijklmnopqrstuvwxyz', 'ABCDEF', 'GHIJKLMNOPQRSTUVWXYZ']
/** In base64 one byte less is told apart from what stands beside it. */
const CHANGED_CHARACTERS = 4

function withOtherEnd(text: string): string {
  let left = CHANGED_CHARACTERS
  const characters = [...text].reverse().map((character) => {
    const alphabet = ALPHABETS.find((each) => each.includes(character))
    if (left === 0 || alphabet === undefined) return character
    left -= 1
    return alphabet[(alphabet.indexOf(character) + 1) % alphabet.length]
  })
  return characters.reverse().join('')
}
