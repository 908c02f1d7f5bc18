/** What is written down and told of an authorization. Rule: docs/behaviour/oauth.md, "What is written down". */

import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Database, Transaction } from '../db/client.ts'
import type { IntegrationEvents } from '../events/events.ts'
import type { Framework } from '../framework/context.ts'
import type { OAuthFailureCode } from '../framework/errors.ts'
import { isIntegrationsError, OAuthFailure } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { errorLine } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { redactText } from '../framework/redaction.ts'
import { errorKind, stackFrames } from '../framework/thrown.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { Integration } from '../providers/integration.ts'
import { providerErrorCode, providerErrorOf } from './callback-rules.ts'

const MAX_ERROR_LENGTH = 1_000
/** Of a stack, enough to find the place in an adapter. */
const MAX_FRAMES = 5

type Stage = IntegrationEvents['OAuthFailed']['stage']

/** A step that failed. */
export interface FailedStep {
  readonly stage: Stage
  readonly code: OAuthFailureCode
  readonly message: string
  /** What the provider's code threw; undefined: nothing was thrown. */
  readonly thrown?: unknown
  readonly providerError?: string | null
}

/** Writes a failure down, tells of it, and makes the error that says so. */
export async function failedOAuth(
  framework: Framework,
  integration: Integration,
  step: FailedStep,
): Promise<OAuthFailure> {
  const { stage, code, message, thrown } = step
  // A code of this moment may stand where an error's name should.
  const named = step.providerError ?? providerErrorOf(thrown)
  const providerError = named === null ? null : providerErrorCode(redactText(named, secretsIn(integration)))
  const failure = new OAuthFailure(code, message, providerError, integration.id)
  const error = [code, providerError, thrown === undefined ? null : lineOf(thrown, integration)]
    .filter((part) => part !== null)
    .join(': ')
  if (thrown !== undefined)
    framework.logger.warn(
      {
        event: 'oauth.failed',
        integration: integration.id,
        provider: integration.provider,
        stage,
        code,
        provider_error: providerError,
        error,
        at: stackFrames(thrown).slice(0, MAX_FRAMES),
      },
      'A step of an authorization failed.',
    )
  try {
    await insertOAuthLog(framework, framework.db, integration.id, {
      status: 'failed',
      summary: message.slice(0, 255),
      error: error.slice(0, MAX_ERROR_LENGTH),
      metadata: { stage, code, provider_error: providerError },
    })
  } catch (fault) {
    // The failure itself is the news; its record goes where it can still be written.
    framework.logger.error(
      {
        event: 'oauth.failure_not_recorded',
        integration: integration.id,
        provider: integration.provider,
        stage,
        code,
        error: errorLine(fault, 500),
      },
      'The log row of a failed authorization could not be written.',
    )
  }
  await framework.listeners.emit('OAuthFailed', { integration, stage, error: failure })
  return failure
}

export async function insertOAuthLog(
  { tables }: Framework,
  db: Database | Transaction,
  integrationId: number,
  row: {
    readonly status: 'success' | 'failed'
    readonly summary: string
    readonly error?: string
    readonly metadata: Readonly<Record<string, Json>>
  },
): Promise<void> {
  await insertLog(db, tables, { integrationId, operation: 'oauth', direction: 'inbound', ...row })
}

/**
 * Our own errors say no secret. Of any other only its kind is told: what a token endpoint answers may be quoted in the text,
 * with tokens in it that nobody has stored yet, so that redaction could not find them.
 */
function lineOf(thrown: unknown, integration: Integration): string {
  const secrets = secretsIn(integration)
  if (!isIntegrationsError(thrown)) return redactText(errorKind(thrown), secrets)
  return redactedErrorLine(thrown, secrets, MAX_ERROR_LENGTH)
}
