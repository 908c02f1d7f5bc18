import { keyStatus, verifyKeys } from '../../credentials/encryption-keys.ts'
import type { Framework } from '../../framework/context.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_FINDINGS, ok, warning } from './doctor-check.ts'
import { pageOfCredentials } from './doctor-queries.ts'

const PAGE = 500

export const keysMatch: Check = {
  name: 'keys.match',
  needs: ['database.migrations'],
  async look(framework) {
    try {
      await verifyKeys(lookingOnly(framework))
    } catch (error) {
      if (!isIntegrationsError(error, 'encryption_key_mismatch')) throw error
      return fault(error.message, 'integrations keys status')
    }
    return ok(`The key ring (${framework.encryption.kids.join(', ')}) is the one that wrote this database.`)
  },
}

export const keysRotation: Check = {
  name: 'keys.rotation',
  needs: ['keys.match'],
  async look(framework) {
    const { primary, keys } = await keyStatus(framework)
    const older = keys.filter(({ kid, inRing, rows }) => kid !== primary && inRing && rows > 0)
    if (older.length === 0) return ok(`All credentials are written with the key that writes, "${primary}".`)
    const each = older.map(({ kid, rows }) => `${counted(rows, 'integration')} with "${kid}"`).join(', ')
    return warning(
      `Credentials are not written with the key that writes, "${primary}", but ${each}. Those keys can't be removed yet.`,
      'integrations keys rotate',
    )
  },
}

export const keysReadable: Check = {
  name: 'keys.readable',
  needs: ['keys.match'],
  async look(framework) {
    const { db, tables, encryption } = framework
    const unreadable: Observation[] = []
    let looked = 0
    for (let after = 0; unreadable.length <= MAX_FINDINGS; ) {
      const rows = await pageOfCredentials(db, tables, after, PAGE)
      for (const { id, credentials } of rows)
        try {
          encryption.decrypt(id, credentials)
        } catch (error) {
          if (!isIntegrationsError(error, 'credentials_unreadable')) throw error
          unreadable.push(fault(`${error.message} Its calls fail until it has others.`, `integrations show ${id}`))
        }
      looked += rows.length
      if (rows.length < PAGE) break
      after = rows.at(-1)?.id ?? after
    }
    return capped(unreadable, `The credentials of ${counted(looked, 'integration')} can be read.`)
  },
}

/** A start writes a new key's canary; a doctor that is run with the wrong ring on an empty database must not. */
function lookingOnly(framework: Framework): Framework {
  const { cache } = framework
  return { ...framework, cache: { ...cache, get: (key) => cache.get(key), add: async () => true } }
}
