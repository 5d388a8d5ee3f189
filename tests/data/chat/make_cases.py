#!/usr/bin/env python3
"""Writes cases.json: templates, variables, and what Jinja makes of them, set up as Hugging Face transformers does.

Needs Debian's python3-jinja2. Run it after changing the templates below; chat_test compares with the file."""
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

CHATML = """{% for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

# A system message of its own, the first one separately: as Qwen's.
QWEN = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' ~ messages[0].content ~ '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == "user" and message.content is string %}
        {%- set ns.found = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and thought is defined %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thought + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

LLAMA3 = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + \
message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}\
{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}\
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.role == "tool" %}{{- raise_exception("no tools") }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

OLMO = """{{ eos_token }}{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

MISTRAL = """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}\
{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}\
{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"""

CONVERSATIONS = [
    [{"role": "user", "content": "Hi  there\n"}],
    [{"role": "system", "content": " Be kind.\n"}, {"role": "user", "content": "1 + 1?"},
     {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIt is 2."}, {"role": "user", "content": " ü? <|im_end|>"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
    [{"role": "assistant", "content": "<think>x</think>b"}],
    [{"role": "tool", "content": "b"}],
]

# Expressions and statements one by one.
SMALL = [
    "{{ 1 + 2 * 3 - 4 // 3 % 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1.5 + 1 }} {{ 2 * 'ab' }}",
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x', none] ~ {'k': 'v', 'n': [true]} }}",
    "{{ 1 < 2 < 3 }} {{ 3 > 2 >= 2 }} {{ 'a' in 'cab' }} {{ 'x' not in ['x'] }} {{ 1 == 1.0 }} {{ 'a' != 'b' }}",
    "{{ not a }} {{ a or 'else' }} {{ '' and 1 }} {{ 'x' if a else 'y' }} [{{ 'x' if a }}]",
    "{{ list[1] }} {{ list[-1] }} {{ list[1:] }} {{ list[:-1] }} {{ list[::-1] }} {{ list[::2] }} {{ 'héllo'[1:3] }} {{ 'héllo'[::-1] }}",
    "{{ d.a }} {{ d['b'] }} {{ d.items()|map('last')|list }} {{ d.keys()|list }} {{ d.get('zz', 5) }} {{ d.get('zz') }} [{{ d.zz }}]",
    "{{ ' x '|trim }}|{{ 'abc'|upper }}|{{ 'ABC'|lower }}|{{ 'a b'|title }}|{{ 'aBC'|capitalize }}|{{ 'abc'|length }}|{{ d|length }}",
    "{{ list|join('-') }} {{ list|first }} {{ list|last }} {{ list|reverse|list }} {{ 'a,b'.split(',') }} {{ ' a  b '.split() }} {{ 'a-b-c'.split('-', 1) }}",
    "{{ d|tojson }} {{ d|tojson(indent=2) }} {{ 'é\"\\n'|tojson }} {{ none|tojson }} {{ [1.5, true]|tojson }}",
    "{{ x|default('none') }} {{ ''|default('e', true) }} {{ '12'|int + 1 }} {{ 'abc'|replace('b', 'X') }} {{ 'aaa'.replace('a', 'b') }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'xxaxx'.strip('x') }} {{ 'a'.upper() }} {{ 'A B'.lower() }} {{ 'abcb'.find('b') }}",
    "{{ people|selectattr('age', 'equalto', 3)|list|length }} {{ people|rejectattr('age')|list|length }} {{ people|map(attribute='name')|join(',') }} {{ ['a', 'b']|map('upper')|join }}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}{% for k, v in d.items() if v %}{{ k }}{% else %}none{% endfor %}",
    "{% for i in range(3) %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [] %}x{% else %}empty{% endfor %}{% set a, b = [1, 2] %}{{ a }}{{ b }}",
    "{% set x = 1 %}{% for i in range(2) %}{% set x = 5 %}{% endfor %}{{ x }}{% if true %}{% set x = 7 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% macro f(a, b='B') %}<{{ a }}{{ b }}>{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}",
    "{% set text %}a {{ 1 }}\nb{% endset %}[{{ text }}]",
    "{# a comment #}a\n  {% if true %}\n  b\n  {% endif %}\nc  {%- if true %} d {%+ endif %}\n   {{- 'e' -}}   \n f\n\n",
    "  {% for i in range(2) -%}\n   x{{ i }}\n  {%- endfor %}  y\n",
    "{{ 'a\\n\\t\\'\\\"\\\\' }} {{ \"it's\" }} {{ 'a' 'b' }} {{ '\\u00e9' }} {{ \"{{ }} %}\" }}",
    "{{ x is defined }} {{ list is defined }} {{ none is none }} {{ 'a' is string }} {{ d is mapping }} {{ list is iterable }} {{ 1 is number }} {{ true is boolean }} {{ 3 is odd }} {{ 3 is not even }} {{ 1 is in [1] }} {{ 2 is eq 2 }}",
    "{{ {'a': {'b': [1, {'c': 2}]}}['a']['b'][1].c }}{{ {} }}{{ [] }}{{ (1, 2)|join(',') }}",
    "{{ strftime_now is defined }} {{ (1 == 1) is true }} {{ [1, 2] + [3] }} {{ [1, 2] == [1, 2] }} {{ 'é€'|length }}",
    "{% generation %}x{% endgeneration %}{{ 'line\nline'|indent(2) }}|{{ 'a\n\nb'|indent(2, true) }}",
    # Refused by Jinja too.
    "{{ x.y }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ 1 < 'a' }}", "{% if %}x{% endif %}", "{{ 1", "{% for x in 5 %}{% endfor %}", "{% endif %}",
    "{{ raise_exception('no') }}", "{{ none.x.y }}", "{{ 'a'|nonsense }}", "{% nonsense %}", "{{ f() }}", "{% set d.a = 1 %}", "{{ 'a' 1 }}",
]
VARIABLES = {"a": 0, "list": [1, 2, 3], "d": {"b": 2, "a": 1}, "people": [{"name": "x", "age": 3}, {"name": "y", "age": 0}]}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.TemplateError(message)
    env.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    env.globals.update(raise_exception=raise_exception, strftime_now=lambda text: text)
    return env


def case(template, variables):
    try:
        return {"template": template, "variables": variables, "expected": environment().from_string(template).render(**variables)}
    except Exception:  # whatever Jinja or Python says
        return {"template": template, "variables": variables, "expected": None}


def main():
    cases = [case(template, VARIABLES) for template in SMALL]
    for template in (CHATML, QWEN, LLAMA3, LLAMA31, OLMO, MISTRAL):
        for messages in CONVERSATIONS:
            cases.append(case(template, {"messages": messages, "add_generation_prompt": True, "tools": None, "bos_token": "<s>", "eos_token": "</s>"}))
    path = pathlib.Path(__file__).with_name("cases.json")
    path.write_text(json.dumps(cases, ensure_ascii=False, indent=0) + "\n")
    print(f"{len(cases)} cases, {sum(c['expected'] is None for c in cases)} of them refused: {path}")


main()
