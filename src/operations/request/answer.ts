/**
 * What can be read off whatever a call returned or threw: a fetch `Response`, an Octokit response or error, a Stripe
 * object with its `lastResponse`. SDK values pass to the caller untouched; this is only for the request's row.
 */
import { HttpError } from '../../core/errors.ts'
import { errorChain, statusOf } from '../../core/failure-class.ts'
import { retryAfterSeconds } from '../../core/request-retry.ts'

export interface Answer {
  readonly statusCode: number | null
  readonly providerRequestId: string | null
  readonly retryAfterSeconds: number | null
}

export const NO_ANSWER: Answer = { statusCode: null, providerRequestId: null, retryAfterSeconds: null }

/** Header names under which providers give the id of a request. */
const REQUEST_ID_HEADERS = ['request-id', 'x-github-request-id', 'x-request-id']
const MAX_REQUEST_ID_LENGTH = 128

/** A `Response` judged by its status and decoded; anything else as it is. @throws HttpError for a status of 400 or more */
export async function decode(value: unknown): Promise<{ value: unknown; body: unknown; response: Response | null }> {
  if (!(value instanceof Response)) return { value, body: bodyOf(value), response: null }
  const decoded = await decodeBody(value)
  if (value.status >= 400) throw new HttpError(value.status, value.headers, decoded)
  return { value: decoded, body: decoded, response: value }
}

export function answerOf(source: unknown, now: Date): Answer {
  for (const link of typeof source === 'object' && source !== null ? errorChain(source) : []) {
    const headers = headersOf(link)
    if (headers === null) continue
    return {
      statusCode: statusIn(link) ?? statusOf(source),
      providerRequestId: requestIdIn(link, headers),
      retryAfterSeconds: retryAfterSeconds(headers('retry-after'), now),
    }
  }
  return { ...NO_ANSWER, statusCode: source instanceof Error ? statusOf(source) : null }
}

type HeaderReader = (name: string) => string | null

function headersOf(link: object): HeaderReader | null {
  const record = link as Record<string, unknown>
  const holder = [record.headers, inner(record.response, 'headers'), inner(record.lastResponse, 'headers')].find(
    (candidate) => typeof candidate === 'object' && candidate !== null,
  )
  if (holder === undefined) return null
  if (holder instanceof Headers) return (name) => holder.get(name)
  const plain = holder as Record<string, unknown>
  return (name) => (plain[name] === undefined || plain[name] === null ? null : String(plain[name]))
}

function statusIn(link: object): number | null {
  const record = link as Record<string, unknown>
  const candidates = [record.status, record.statusCode, inner(record.lastResponse, 'statusCode')]
  const status = candidates.find((value) => Number.isInteger(value) && Number(value) >= 100 && Number(value) <= 599)
  return status === undefined ? null : Number(status)
}

function requestIdIn(link: object, headers: HeaderReader): string | null {
  const own =
    inner((link as Record<string, unknown>).lastResponse, 'requestId') ?? (link as Record<string, unknown>).requestId
  const found = typeof own === 'string' ? own : REQUEST_ID_HEADERS.map(headers).find((value) => value !== null)
  return found === undefined || found === null ? null : found.slice(0, MAX_REQUEST_ID_LENGTH)
}

/** Octokit's answer holds the body in `data`, beside url, status and headers. Stripe's object is the body itself. */
function bodyOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const record = value as Record<string, unknown>
  const isOctokit = 'data' in record && typeof record.status === 'number' && typeof record.headers === 'object'
  return isOctokit ? record.data : value
}

async function decodeBody(response: Response): Promise<unknown> {
  const text = await response.text()
  if (text === '') return null
  const isJson = /[/+]json\b/i.test(response.headers.get('content-type') ?? '')
  if (!isJson) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function inner(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined
}
