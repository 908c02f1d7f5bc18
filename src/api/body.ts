/** Bodies and queries at the door: size, kind, shape. */
import type { Context, MiddlewareHandler } from 'hono'
import { z } from 'zod'
import { lossInParsing } from '../framework/json.ts'
import type { FieldProblem } from './problem.ts'
import { ProblemError, problemResponse } from './problem.ts'
import { BODY_TIMEOUT_MS, lingering, readBody } from './request-body.ts'

const MAX_BODY_BYTES = 1_048_576

/** Reads the body for the handlers behind it. It comes after the check of the caller: the body of an unknown caller stays unread. */
export function boundBody(maxBytes = MAX_BODY_BYTES): MiddlewareHandler {
  return async function boundBody(context, next) {
    const { raw } = context.req
    if (raw.body === null) return next()
    // A client that hangs up in the middle reads no answer, so any answer will do.
    const body = await readBody(context, maxBytes).catch(() => ({ kind: 'too slow' }) as const)
    if (body.kind === 'too large') {
      const detail = `The body is larger than ${maxBytes} bytes.`
      return lingering(context, problemResponse(context, { code: 'body_too_large', detail }))
    }
    // There is room for all: callers are known.
    if (body.kind !== 'read') {
      const detail = `The body did not come in within ${BODY_TIMEOUT_MS / 1_000} seconds.`
      return problemResponse(context, { code: 'body_too_slow', detail })
    }
    context.req.raw = new Request(raw, { body: body.bytes as Uint8Array<ArrayBuffer> })
    return next()
  }
}

/**
 * The body as JSON; no body at all is an empty object.
 *
 * @throws ProblemError 415, 400; 422 where a number would not be kept
 */
export async function bodyGiven(context: Context): Promise<unknown> {
  return (await context.req.text()) === '' ? {} : jsonBody(context, z.unknown())
}

/** The query's parameters, each once. @throws ProblemError 422 */
export function queryGiven(context: Context): Readonly<Record<string, string>> {
  return queryOf(context, z.record(z.string(), z.string()))
}

/** @throws ProblemError 415, 400 or 422 */
export async function jsonBody<Schema extends z.ZodType>(context: Context, schema: Schema): Promise<z.output<Schema>> {
  if (mediaType(context) !== 'application/json') {
    const detail = 'The body is to be JSON, with "Content-Type: application/json".'
    throw new ProblemError({ code: 'unsupported_media_type', detail })
  }
  const text = await context.req.text()
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    // The parser's message quotes the body, which may hold credentials.
    throw new ProblemError({ code: 'invalid_json', detail: 'The body is no JSON.' })
  }
  const loss = lossInParsing(text)
  if (loss !== null) throw invalid(`The body can't be kept as it is: ${loss}. Send a long number as a text.`, [])
  return parsed(schema, body, 'The body has fields that do not fit.')
}

/** A field of a plain form; undefined for any other body. */
export async function formField(context: Context, name: string): Promise<string | undefined> {
  if (mediaType(context) !== 'application/x-www-form-urlencoded') return undefined
  const value = (await context.req.parseBody())[name]
  return typeof value === 'string' ? value : undefined
}

function mediaType(context: Context): string {
  return (context.req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/** A query's parameters, each at most once. @throws ProblemError 422 */
export function queryOf<Schema extends z.ZodType>(context: Context, schema: Schema): z.output<Schema> {
  const given = Object.entries(context.req.queries())
  const repeated = given.filter(([, values]) => values.length > 1)
  if (repeated.length > 0)
    throw invalid(
      'The query repeats a parameter.',
      repeated.map(([path]) => ({ path, message: 'is allowed once' })),
    )
  return parsed(
    schema,
    Object.fromEntries(given.map(([name, [value]]) => [name, value])),
    'The query has parameters that do not fit.',
  )
}

function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown, detail: string): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const fields = result.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ path: [...issue.path, key].map(String).join('.'), message: 'is not known here' }))
      : [{ path: issue.path.map(String).join('.'), message: issue.message }],
  )
  throw invalid(detail, fields)
}

export function invalid(detail: string, fields: readonly FieldProblem[]): ProblemError {
  return new ProblemError({ code: 'invalid_fields', detail, fields })
}
