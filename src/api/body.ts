/** Bodies and queries at the door: size, kind, shape. */
import type { Context } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import type { z } from 'zod'
import { mediaType } from './csrf.ts'
import type { FieldProblem } from './problem.ts'
import { ProblemError, problemResponse } from './problem.ts'

const MAX_BODY_BYTES = 1_048_576

export const limitBody = bodyLimit({
  maxSize: MAX_BODY_BYTES,
  onError: (context) => {
    // The rest of the body stays unread, so the connection can't be used again.
    context.header('Connection', 'close')
    const detail = `The body is larger than ${MAX_BODY_BYTES} bytes.`
    return problemResponse(context, { status: 413, code: 'body_too_large', detail })
  },
})

/** @throws ProblemError 415, 400 or 422 */
export async function jsonBody<Schema extends z.ZodType>(context: Context, schema: Schema): Promise<z.output<Schema>> {
  if (mediaType(context) !== 'application/json') {
    const detail = 'The body is to be JSON, with "Content-Type: application/json".'
    throw new ProblemError({ status: 415, code: 'unsupported_media_type', detail })
  }
  let body: unknown
  try {
    body = JSON.parse(await context.req.text())
  } catch {
    // The parser's message quotes the body, which may hold credentials.
    throw new ProblemError({ status: 400, code: 'invalid_json', detail: 'The body is no JSON.' })
  }
  return parsed(schema, body, 'The body has fields that do not fit.')
}

/** As {@link jsonBody}; no body at all is an empty object. */
export async function optionalJsonBody<Schema extends z.ZodType>(
  context: Context,
  schema: Schema,
): Promise<z.output<Schema>> {
  if ((await context.req.text()) === '') return parsed(schema, {}, 'The body has fields that do not fit.')
  return jsonBody(context, schema)
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

function invalid(detail: string, fields: readonly FieldProblem[]): ProblemError {
  return new ProblemError({ status: 422, code: 'invalid_fields', detail, fields })
}
