/** An answer of the API that is no success: `{"error": {"code", "message"}}`. */
export class DesklineFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message)
  }

  toResponse(): Response {
    return Response.json(
      { error: { code: this.code, message: this.message } },
      { status: this.status, headers: this.headers },
    )
  }
}

export const notFound = (what: string): DesklineFailure => new DesklineFailure(404, 'not_found', `There is no ${what}.`)

export const invalidParameter = (name: string, allowed: string): DesklineFailure =>
  new DesklineFailure(400, 'invalid_parameter', `${name}: ${allowed}.`)
