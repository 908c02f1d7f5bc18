/** Inputs made of a command's fields: for filters and for acts. */
import { html } from 'hono/html'
import { snakeCase } from '../../../commands/command.ts'
import type { Field } from '../../../commands/fields.ts'
import { isRequired } from '../../../commands/fields.ts'
import type { Markup } from '../frame/markup.ts'

/** What is typed there is not shown, and not shown again. */
const SECRET = /secret|credential|token/i

/** In an empty input, where an example says more than the placeholder of the help. */
const EXAMPLES: Readonly<Record<string, string>> = {
  instant: '2031-06-01T12:00:00Z',
  when: '24h or 2031-06-01T12:00:00Z',
}

/**
 * @param value the word given before, shown again unless it is a secret
 * @param options `none`: the choice of nothing; `isExplained`: what the field is about stands there, not in its title alone
 */
export function inputOf(
  name: string,
  field: Field,
  value = '',
  { none = 'any', isExplained = false }: { readonly none?: string; readonly isExplained?: boolean } = {},
): Markup {
  const id = snakeCase(name)
  const label = id.replaceAll('_', ' ')
  const required = isRequired(field) ? html` required` : ''
  const about = isExplained ? html`<small>${field.about}</small>` : ''
  const title = isExplained ? '' : html` title="${field.about}"`
  if (field.choices !== undefined)
    return html`<label>${label}${about}<select name="${id}"${title}${required}><option value="">${required === '' ? none : 'choose'}</option>${field.choices.map((choice) => html`<option${choice === value ? html` selected` : ''}>${choice}</option>`)}</select></label>`
  if (field.placeholder === null)
    return html`<label class="check"><input type="checkbox" name="${id}" value="true"${value === 'true' ? html` checked` : ''}> ${label}<small>${field.about}</small></label>`
  if (field.isTrueAlone || field.placeholder === 'boolean')
    return html`<label>${label}${about}<select name="${id}"${title}><option value="">${none}</option>${['true', 'false'].map((word) => html`<option value="${word}"${word === value ? html` selected` : ''}>${word === 'true' ? 'yes' : 'no'}</option>`)}</select></label>`
  const isSecret = SECRET.test(name)
  const shown = isSecret ? '' : value
  if (field.placeholder === 'json')
    return html`<label>${label}${about}<textarea name="${id}" rows="6" spellcheck="false" autocomplete="off" placeholder="JSON"${title}${required}>${shown}</textarea></label>`
  const type = isSecret ? 'password' : 'text'
  const mode = ['id', 'n'].includes(field.placeholder) ? html` inputmode="numeric"` : ''
  return html`<label>${label}${about}<input type="${type}" name="${id}" value="${shown}" placeholder="${EXAMPLES[field.placeholder] ?? field.placeholder}"${title} autocomplete="off"${mode}${required}></label>`
}
