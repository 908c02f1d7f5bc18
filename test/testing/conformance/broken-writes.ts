/** Providers whose writes break a rule of idempotency keys, and the checks that have to find it. */
import { randomUUID } from 'node:crypto'
import type { Integration, RequestContext } from '../../../src/provider.ts'
import { isIntegrationsError } from '../../../src/provider.ts'
import type { Broken, Provider } from './broken.ts'
import { but } from './broken.ts'
import { SOUND_FIXTURES, SoundProvider } from './sound-provider.ts'

const SENT = 'sends the key to the provider, which declares that it knows keys'
const ONCE = 'goes out once with its key, also where it is made again'
const AT_ONCE = 'goes out once where two callers make it at the same time'
const NEVER = 'is not sent again after its answer was lost: it may have taken effect'
const AGAIN = 'is sent again with the same key after its answer was lost'

const KNOWS_NO_KEYS = { supportsIdempotency: undefined, idempotencyWindowSeconds: undefined }
type Write = SoundProvider['open']
type Post = SoundProvider['post']

/** The fixture makes the write of the provider that is put through the suite. */
function writing(what: string, provider: Provider, ...found: readonly (string | RegExp)[]): Broken {
  return {
    what,
    provider,
    fixtures: {
      ...SOUND_FIXTURES,
      write: (integration, idempotencyKey) => new provider().open(integration, 'It is broken', idempotencyKey),
    },
    contract: 'a write with an idempotency key',
    breaks: found.filter((each) => typeof each === 'string'),
    says: found.filter((each) => each instanceof RegExp),
  }
}

const withOpen = (open: (write: Write) => Write, more: object = {}): Provider =>
  but((provider) => ({ ...more, open: open(provider.open.bind(provider)) }))
const withPost = (post: (send: Post) => Post, more: object = {}): Provider =>
  but((provider) => ({ ...more, post: post(provider.post.bind(provider)) }))

/** As an author does who wants a write to succeed at any price. */
const againWithoutItsKey =
  (write: Write): Write =>
  (integration, subject, key) =>
    write(integration, subject, key).catch(() => write(integration, subject, null))

export const BROKEN_WRITES: readonly Broken[] = [
  writing(
    'makes its writes without the key',
    withOpen((write) => (integration, subject) => write(integration, subject, null)),
    SENT,
    ONCE,
    AT_ONCE,
    AGAIN,
    /must be the `idempotencyKey` of the integration\.request\(\) that writes.*POST https:\/\/api\.tickets\.example\/tickets \(no key\)/,
  ),
  writing(
    'does not send the key',
    withPost(
      (send) =>
        (integration, subject, { fetch }) =>
          send(integration, subject, { fetch, idempotencyKey: null }),
    ),
    SENT,
    /in the header Idempotency-Key, and there it is not/,
  ),
  writing(
    'sends a key of its own',
    withPost(
      (send) =>
        (integration, subject, { fetch }) =>
          send(integration, subject, { fetch, idempotencyKey: randomUUID() }),
    ),
    SENT,
  ),
  writing(
    'declares another header than it sends the key in',
    withPost(
      () =>
        (...given) =>
          new SoundProvider().post(...given),
      { idempotencyHeader: 'X-Request-Id' },
    ),
    SENT,
    /in the header X-Request-Id/,
  ),
  writing(
    'makes a write again without its key',
    withOpen(againWithoutItsKey),
    ONCE,
    AT_ONCE,
    AGAIN,
    /must go out with its key only/,
  ),
  writing(
    'makes a write again without its key, at a provider that knows none',
    withOpen(againWithoutItsKey, KNOWS_NO_KEYS),
    ONCE,
    AT_ONCE,
    NEVER,
    /must go out with its key only/,
  ),
  writing(
    'takes a lost answer for a success',
    withOpen(
      (write) =>
        async (...given) =>
          write(...given).catch(() => null),
    ),
    AGAIN,
    /whose answer was lost must throw/,
  ),
  writing(
    'makes a write that its API refuses',
    withOpen((write) => async (...given) => {
      await write(...given)
      throw new TypeError('no such member')
    }),
    SENT,
    ONCE,
    AT_ONCE,
    AGAIN,
    /must succeed on the `api` of the fixtures; it threw TypeError: no such member/,
  ),
]

const joined = new Map<string, Promise<unknown>>()

/** What is unusual and right. */
export const UNUSUAL_WRITES: readonly Broken[] = [
  writing(
    'knows no keys',
    but(() => KNOWS_NO_KEYS),
  ),
  writing(
    'sends the key in the body',
    withPost(
      () =>
        (
          _: Integration,
          subject: string,
          { fetch, idempotencyKey }: Pick<RequestContext, 'fetch' | 'idempotencyKey'>,
        ) =>
          fetch('https://api.tickets.example/tickets', {
            method: 'POST',
            body: JSON.stringify({ subject, idempotency_key: idempotencyKey }),
          }),
      { idempotencyHeader: undefined },
    ),
  ),
  writing(
    'gives the prior answer in the place of a conflict',
    withOpen((write) => async (...given) => {
      try {
        return await write(...given)
      } catch (error) {
        if (isIntegrationsError(error, 'idempotency_conflict')) return null
        throw error
      }
    }),
  ),
  writing(
    'lets two callers wait for one call',
    withOpen((write) => (integration, subject, key) => {
      const name = `${integration.id} ${key}`
      const call = joined.get(name) ?? write(integration, subject, key).finally(() => joined.delete(name))
      joined.set(name, call)
      return call
    }),
  ),
]
