/** Inputs made of a command's fields: for filters and for acts. */
import { html } from 'hono/html'
import { snakeCase } from '../../commands/command.ts'
import type { Field } from '../../commands/fields.ts'
import { isRequired } from '../../commands/fields.ts'
import type { Markup } from './markup.ts'

/** Shown in the place of a value that nobody may read again. */
const SECRET = /secret|credential|token/i

/** @param value the word given before, shown again */
export function inputOf(name: string, field: Field, value = ''): Markup {
  const id = snakeCase(name)
  const label = id.replaceAll('_', ' ')
  const required = isRequired(field) ? html` required` : ''
  if (field.choices !== undefined)
    return html`<label>${label}<select name="${id}" title="${field.about}"${required}><option value="">${required === '' ? 'any' : ''}</option>${field.choices.map((choice) => html`<option${choice === value ? html` selected` : ''}>${choice}</option>`)}</select></label>`
  if (field.placeholder === null)
    return html`<label class="check"><input type="checkbox" name="${id}" value="true"${value === 'true' ? html` checked` : ''}> ${label}<small>${field.about}</small></label>`
  if (field.isTrueAlone)
    return html`<label>${label}<select name="${id}" title="${field.about}"><option value="">any</option>${['true', 'false'].map((word) => html`<option value="${word}"${word === value ? html` selected` : ''}>${word === 'true' ? 'yes' : 'no'}</option>`)}</select></label>`
  if (field.placeholder === 'json')
    return html`<label>${label}<textarea name="${id}" rows="6" spellcheck="false" placeholder="JSON" title="${field.about}"${required}>${value}</textarea></label>`
  const type = SECRET.test(name) ? 'password' : 'text'
  const mode = ['id', 'n'].includes(field.placeholder) ? html` inputmode="numeric"` : ''
  return html`<label>${label}<input type="${type}" name="${id}" value="${value}" placeholder="${field.placeholder === 'instant' ? '2031-06-01T12:00:00Z' : field.placeholder}" title="${field.about}" autocomplete="off"${mode}${required}></label>`
}
