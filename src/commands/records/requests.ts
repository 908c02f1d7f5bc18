import { z } from 'zod'
import { classOfCall, FailureClass } from '../../calls/failure-class-rules.ts'
import { table } from '../cli/table.ts'
import { columns, fieldLines } from '../command.ts'
import { choice, id, optional, period, text, whose, yesOrNo } from '../fields.ts'
import { listing } from '../listing.ts'
import { all, RequestRow } from '../shapes.ts'

const Request = RequestRow.extend({
  ...all(z.string().nullable(), 'request_data', 'response_data'),
  attempts: z.array(RequestRow),
  attempts_cut: z.boolean(),
})

const status = {
  about: 'only of this HTTP status, such as 404, or of all of a hundred, such as 4xx',
  placeholder: 'status',
  read: (word: string): unknown => word,
  schema: z
    .string({ error: '100 to 599, or 1xx to 5xx, is allowed' })
    .regex(/^[1-5](xx|\d\d)$/, '100 to 599, or 1xx to 5xx, is allowed')
    .transform((word) => (word.endsWith('xx') ? (word as '4xx') : Number(word))),
}

export const requests = listing({
  name: 'requests',
  topic: 'Records',
  workflow: { none: 'a record holds the request and its answer, which must not be copied into a workflow history' },
  summary: 'Lists the calls that were made, the newest first, or shows one with its attempts.',
  examples: [
    'integrations requests --integration 7 --status 4xx --since 2031-06-01T12:00:00Z',
    'integrations requests --endpoint /issues --json',
    'integrations requests 4711',
  ],
  fields: {
    ...whose,
    endpoint: optional(text('only those whose endpoint or URL has this part')),
    operation: optional(text('only of this HTTP method or operation of an SDK')),
    class: optional(choice('only failures of this class', Object.values(FailureClass))),
    success: optional(yesOrNo('only those that succeeded, or did not')),
    status: optional(status),
    providerRequestId: optional(text("only the one of this id of the provider's")),
    key: optional(text('only of this idempotency key')),
    chain: optional(id('only the attempts of the call that this one is of')),
    ...period('made'),
  },
  path: '/requests',
  row: RequestRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Method: 'method',
    Endpoint: 'endpoint',
    Status: 'status_code',
    Class: ({ failure_class: failureClass, error }) => classOfCall(failureClass, error),
    Ms: 'duration_ms',
    'Retry of': 'retry_of',
    Made: 'created_at',
  },
  none: 'No requests.',
  list: ({ integrations }, { class: failureClass, key, ...filter }) =>
    integrations.admin.requests.list({ ...filter, failureClass, idempotencyKey: key }),
  one: {
    kind: 'request',
    summary: 'Shows one call with its bodies, redacted as they are stored, and its attempts.',
    output: Request,
    async get({ integrations }, of) {
      const { attempts, ...detail } = await integrations.admin.requests.get(of)
      return { ...columns(detail), attempts: attempts.map(columns) }
    },
    show(document) {
      const { attempts, ...fields } = document as z.infer<typeof Request>
      return `${fieldLines(fields)}\n\n${table(
        ['Attempt', 'Status', 'Class', 'Ms', 'Made'],
        attempts.map((each) => [each.id, each.status_code, each.failure_class, each.duration_ms, each.created_at]),
      )}`
    },
  },
})
