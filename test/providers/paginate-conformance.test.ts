/** A provider whose listing is a call of `paginate()` keeps what every provider must keep, whatever the kind of the list. */
import { afterAll, describe, it } from 'vitest'
import { describeProvider } from '../../src/testing/index.ts'
import type { Row } from '../support/hostile-lists.ts'
import { answerOf, KINDS } from '../support/hostile-lists.ts'
import { PagedProvider } from '../support/paged-provider.ts'

const API = 'https://api.paged.example'
const at = (minute: number): string => new Date(Date.UTC(2031, 0, 1, 0, minute)).toISOString()
const ROWS: readonly Row[] = Array.from({ length: 25 }, (_, n) => ({ id: n + 1, updated_at: at(n) }))

function api(request: Request): Response {
  const url = new URL(request.url)
  const { rows, next, ...rest } = answerOf(ROWS, url)
  const link = url.pathname === '/link' && next !== null ? { link: `<${next}>; rel="next"` } : undefined
  return Response.json({ rows, ...rest, meta: { next } }, link && { headers: link })
}

for (const kind of KINDS)
  describeProvider(
    `paged by ${kind}`.replaceAll(' ', '-'),
    () => new PagedProvider(),
    {
      credentials: { token: 'a-token-of-nobody' },
      metadata: { kinds: [kind], url: API, from: at(0), to: at(60) },
      api,
      write: null,
      checkpoints: [at(1), at(2), at(3)],
      kit: { now: at(120) },
    },
    { describe, it, afterAll },
  )
