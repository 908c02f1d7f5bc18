/** Records and announces how an authorization ends. Rule: docs/behaviour/oauth.md, "What is written down". */

import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Database, Transaction } from '../db/client.ts'
import type { IntegrationEvents } from '../events/events.ts'
import type { Framework } from '../framework/context.ts'
import type { OAuthFailureCode } from '../framework/errors.ts'
import { isIntegrationsError, OAuthFailure } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { redactText } from '../framework/redaction.ts'
import { errorKind, stackFrames } from '../framework/thrown.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { Integration } from '../providers/integration.ts'
import { providerErrorCode, providerErrorOf } from './rules.ts'

const MAX_ERROR_LENGTH = 1_000
/** Of a stack, enough to find the place in an adapter. */
const MAX_FRAMES = 5

type Stage = IntegrationEvents['OAuthFailed']['stage']

/** A step that failed. */
export interface FailedStep {
  readonly stage: Stage
  readonly code: OAuthFailureCode
  readonly message: string
  /** Thrown by the provider's code; undefined: nothing was thrown. */
  readonly thrown?: unknown
  readonly providerError?: string | null
}

/** Records and announces a failure. @returns the error to throw */
export async function failedOAuth(
  framework: Framework,
  integration: Integration,
  step: FailedStep,
): Promise<OAuthFailure> {
  const { stage, code, message, thrown } = step
  const logger = integrationLogger(framework, integration)
  // The authorization code may stand where an error's name should.
  const named = step.providerError ?? providerErrorOf(thrown)
  const providerError = named === null ? null : providerErrorCode(redactText(named, secretsIn(integration)))
  const failure = new OAuthFailure(code, message, providerError, integration.id)
  const error = [code, providerError, thrown === undefined ? null : lineOf(thrown, integration)]
    .filter((part) => part !== null)
    .join(': ')
  const metadata = { stage, code, provider_error: providerError }
  if (thrown !== undefined)
    logger.warn(
      { event: 'oauth.failed', ...metadata, error, at: stackFrames(thrown).slice(0, MAX_FRAMES) },
      'A step of an authorization failed.',
    )
  try {
    await insertOAuthLog(framework, framework.db, integration.id, {
      status: 'failed',
      summary: message.slice(0, 255),
      error: error.slice(0, MAX_ERROR_LENGTH),
      metadata,
    })
  } catch (fault) {
    // The failure itself is the news; its record goes into the log instead.
    logger.error(
      { event: 'oauth.failure_not_recorded', stage, code, error: errorLine(fault, 500) },
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
 * Our own errors hold no secret. Of any other error only the kind is shown: its text may quote a token endpoint's answer, with
 * tokens that are not stored yet, so redaction could not find them.
 */
function lineOf(thrown: unknown, integration: Integration): string {
  const secrets = secretsIn(integration)
  if (!isIntegrationsError(thrown)) return redactText(errorKind(thrown), secrets)
  return redactedErrorLine(thrown, secrets, MAX_ERROR_LENGTH)
}
