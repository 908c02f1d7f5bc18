/** Which checks a provider is put through: those of the contracts that it implements. */
import type { HandlesWebhooks, IntegrationProvider } from '../../providers/contracts.ts'
import {
  handlesWebhooks,
  hasBackfill,
  hasHealthCheck,
  hasOAuth2,
  identifiesAuthenticatedUser,
  managesWebhooks,
  recognisesEchoes,
  reconcilesWebhooks,
  sharesRateLimit,
} from '../../providers/contracts.ts'
import { streamsOf, syncSource } from '../../providers/streams.ts'
import type { KeyedWrite } from '../conformance.ts'
import { backfillChapter } from './backfill-checks.ts'
import type { Chapter, Subject } from './conformance-check.ts'
import { listingFixtures } from './conformance-check.ts'
import { credentialsChapter, identityChapter } from './credential-checks.ts'
import { declarationChapter, isWhole } from './declarations.ts'
import type { SignedFixture } from './deliveries.ts'
import { signedFixture } from './deliveries.ts'
import { doorChapter } from './door-checks.ts'
import { eventsChapter } from './event-checks.ts'
import { failureChapters, recognitionChapter } from './failure-checks.ts'
import { healthChapter } from './health-checks.ts'
import { oauthChapter } from './oauth.ts'
import { reconciliationChapter } from './reconciliation-checks.ts'
import { reducerChapter } from './reducer.ts'
import { sharedLimitChapter } from './shared-limit-checks.ts'
import { signatureChapter } from './signatures.ts'
import { subscriptionChapter } from './subscription-checks.ts'
import { syncChapter } from './sync-conformance.ts'
import { echoChapters } from './told-checks.ts'
import { traceChapter } from './traces/traces.ts'
import { webhookChapter } from './webhook-conformance.ts'
import { UNASKED_WRITES, writeChapter } from './write-checks.ts'

export function chapters(subject: Subject): Chapter[] {
  const declared = declarationChapter(subject)
  // Without a provider that can be registered there is nothing else to ask.
  if (!isWhole(subject)) return [declared]
  const provider = subject.provider()
  const { webhook, write, metadata = {} } = subject.fixtures
  const signed = handlesWebhooks(provider) && webhook !== undefined ? signedFixture(provider, webhook, metadata) : null
  return [
    declared,
    credentialsChapter(),
    ...(hasHealthCheck(provider) ? [healthChapter()] : []),
    ...(identifiesAuthenticatedUser(provider) ? [identityChapter()] : []),
    ...failureChapters(provider),
    ...(sharesRateLimit(provider) ? [sharedLimitChapter()] : []),
    ...(hasOAuth2(provider) ? [oauthChapter(subject)] : []),
    ...writeChapters(provider, write),
    ...(handlesWebhooks(provider) && signed !== null ? webhookChapters(signed, provider) : []),
    ...(recognisesEchoes(provider) ? echoChapters(provider, signed) : []),
    ...(managesWebhooks(provider) ? [subscriptionChapter()] : []),
    ...(reconcilesWebhooks(provider) ? [reconciliationChapter()] : []),
    ...streamsOf(provider).flatMap((stream) => listingChapters(subject, stream)),
    traceChapter(subject),
    recognitionChapter(),
  ]
}

function writeChapters(provider: IntegrationProvider, write: KeyedWrite | null | undefined): Chapter[] {
  if (write === null) return []
  return [write === undefined ? UNASKED_WRITES : writeChapter(provider, write)]
}

function webhookChapters(fixture: SignedFixture, provider: HandlesWebhooks): Chapter[] {
  const events = eventsChapter(fixture, provider)
  const chapters = [signatureChapter(fixture), webhookChapter(fixture), doorChapter(fixture)]
  return events.checks.length === 0 ? chapters : [...chapters, events]
}

/** Of a stream, the same by its name. */
function listingChapters({ provider, fixtures }: Subject, stream: string | null): Chapter[] {
  const source = syncSource(provider(), stream)
  if (source === null) return []
  const { checkpoints, cursor = null, window } = listingFixtures(fixtures, stream)
  const chapters = [
    ...(checkpoints === undefined ? [] : [reducerChapter(checkpoints)]),
    syncChapter(source, cursor),
    ...(hasBackfill(source) && window !== undefined ? [backfillChapter(window)] : []),
  ]
  if (stream === null) return chapters
  return chapters.map(({ contract, checks }) => ({
    contract: `the stream ${stream}: ${contract.replace('HasScheduledSync: ', '')}`,
    checks: checks.map(({ name, run }) => ({ name, run: (bench) => run(bench.ofStream(stream)) })),
  }))
}
