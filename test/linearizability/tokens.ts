/** Callers whose token was refused ask for another one. Rule: docs/behaviour/oauth.md, "Refresh". */
import { isIntegrationsError } from '../../src/framework/errors.ts'
import { tokensOf } from '../../src/oauth/rules.ts'
import { newestCredentials } from '../../src/oauth/token-refresh.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { Subject } from './history.ts'
import type { Lane } from './lane.ts'
import { rest } from './lane.ts'

export const LOCK_SECONDS = 1
export const FIRST_TOKEN = 'first'

export const OAUTH: HasOAuth2 = {
  authorizationUrl: () => 'https://provider.example/authorize',
  exchangeCode: async () => ({}),
  refreshToken: async () => {
    throw new Error('each question brings its own')
  },
  revokeToken: async () => {},
  refreshThreshold: () => 0,
}

/** @param as the handle as a question sees it */
export async function refreshOn(
  lane: Lane,
  load: () => Promise<Integration>,
  as: (handle: Integration) => Integration,
): Promise<void> {
  const { history, client } = lane
  const subject: Subject = { object: `tokens:${lane.round.integrations.oauth}`, model: 'tokens' }
  while (!lane.isOver()) {
    const integration = await history.record(subject, client, { kind: 'read' }, load, (seen) => ({
      token: accessToken(seen),
    }))
    await rest(lane, 10)
    await replace(lane, subject, as(integration))
    await rest(lane, 60)
  }
}

const accessToken = (handle: Integration): string | null => tokensOf(handle.credentialsArray()).accessToken

async function replace(lane: Lane, subject: Subject, integration: Integration): Promise<void> {
  const { framework, history, client } = lane
  const known = tokensOf(integration.credentialsArray())
  const askedMs = Date.now()
  const lock = { askedMs, ms: LOCK_SECONDS * 1_000 }
  let ended: ((output: { token: string | null }) => void) | undefined
  const refreshToken = async (sent: Integration): Promise<Record<string, string>> => {
    const owner = lane.name()
    const token = accessToken(sent)
    history.begin(subject, client, { kind: 'begin', owner, token, ...lock })({})
    await rest(lane, 15)
    const brought = lane.name()
    ended = history.begin(subject, client, { kind: 'end', owner, token, new: brought })
    return { access_token: brought, refresh_token: `of ${brought}` }
  }
  const got = history.begin(subject, client, { kind: 'get', token: known.accessToken })
  try {
    const provider = { ...OAUTH, refreshToken }
    const credentials = await newestCredentials(framework, { integration, provider, known, force: true })
    const token = tokensOf(credentials).accessToken
    ended?.({ token })
    got({ token })
  } catch (error) {
    // Its lock was over, or another one's was not: what it has done shows in what comes after.
    if (!isIntegrationsError(error, 'lock_timeout') && !isIntegrationsError(error, 'request_timeout')) throw error
  }
}
