"""Words of names that are harmless, by what they speak of.

English words are those of the TPC-H and TPC-DS dimension tables, the calendar, hospitals' and firms' places, and of
systems that load tables. Those of other languages come from published translations: the calendar and currency from
Unicode's CLDR (dateFields, keys), department, supplier, manufacturer, city, state, country, category and quantity from
Snipe-IT's and Open Source POS's, the rest from tests/samples/columns/known.tsv, and units by hand; never from the sets
that are held out.

Left out on purpose: colours (of skin), languages, classes, nations, titles, pages (visited), methods and sites (of
treatment), locations, companies (that employ), carriers (of a gene), releases (from prison), latencies (of nerves),
nodes, protocols, jobs, depots (that are injected), inventories (of symptoms), articles (of a penal code); and words
that are short for, or mean in another language, what is not: `dia` (diastolic), `ar`, `genre` (sex, in French),
`النوع` (sex, in Arabic).
"""

from __future__ import annotations

from cleave.propose.names import words

PLACE = words(
    "ward department dept division branch store shop facility hospital clinic warehouse office plant market"
    " city town county province region country district zone territory aisle shelf"
    " Station Lager afdeling winkel avdelning butik oddział województwo отделение область склад"
    " entrepôt provincia almacén departamento magazzino enfermaria loja bölüm depo विभाग 診療科 都道府県 倉庫 المدينة"
    " Abteilung département reparto департамент 部门 部署 القسم"
    " Stadt ville ciudad città cidade miasto stad şehir город 城市 市区町村"
    " Bundesland distrito provincie län регион 省份 المحافظة"
    " Land pays país paese kraj ülke страна 国家 الدولة البلد"
    " Lagerort Lagerplats voorraadlocatie"
)
TRADE = words(
    "product item sku brand manufacturer supplier vendor ship shipping shipment shipmode channel carton container"
    " currency fiscal catalog mktsegment"
    " Produkt Produktgruppe produit produto prodotto товар उत्पाद 产品 ürün Waren Artikelnummer Artikelgruppe صنف"
    " valuta moeda валюта मुद्रा العملة Währung devise moneda waluta para_birimi 货币 通貨"
    " Lieferant fournisseur proveedor fornitore fornecedor leverancier dostawca leverantör tedarikçi sağlayıcı"
    " поставщик 供应商 仕入先 المورد مورد"
    " Hersteller fabricant fabricante produttore fabrikant producent tillverkare üretici производитель 制造商 製造元"
)
STOCK = words(
    "stock reorder backorder in_stock out_of_stock on_hand stock_on_hand qty_on_hand quantity_on_hand"
    " Lagerbestand Bestand existencias estoque voorraad stok запасы 库存 المخزون"
)
CALENDAR = words(
    "year month quarter week weekday day hour Jahr Monat Quartal Woche Wochentag année mois trimestre semaine año mes"
    " semana mês maand månad miesiąc ay 月 月份"
    " dayofweek jour_de_la_semaine día_de_la_semana giorno_della_settimana dia_da_semana dag_van_de_week weekdag"
    " dzień_tygodnia veckodag haftanın_günü день_недели 星期 曜日 सप्ताह_का_दिन"
    " anno jaar yıl год السنة वर्ष mese месяц الشهر माह settimana tydzień vecka неделя الأسبوع सप्ताह"
    " kwartaal kwartał kvartal çeyrek квартал 季度 四半期 ربع_السنة तिमाही"
)
# These mean a quarter of a year and a third of a pregnancy.
QUARTERS_OR_TRIMESTERS = words("trimestre तिमाही")
# What systems write down of themselves, mostly in one piece: alone, `ingested` is a poison, `log` a logarithm, `dag` a
# day in Dutch, `deployment` a soldier's.
SYSTEM = words(
    "etl elt partition shard replica http https api cpu gpu aws gcp azure kubernetes namespace retry retries"
    " log_level mime_type media_type schema_version app_version is_deleted deleted_at is_archived archived_at"
    " loaded_at load_date load_time load_timestamp ingested_at ingestion_date ingestion_time ingestion_timestamp"
    " synced_at extracted_at extraction_date extraction_time processed_at imported_at exported_at snapshot_date"
)
# Beside a word of the lists above these are harmless: `product type`, `ward no`.
CODE = words("id ids key code no nr num number nummer numero numer номер kod iso 编号 番号")
BESIDE = CODE | words(
    "name type group category kind size unit units label level order line mode method web catégorie de"
    " Gruppe typ tipo grupo groupe Kategorie categoría categoria categorie kategoria kategori категория 类别 分类"
    " カテゴリー تصنيف التصنيف of the del della des du la le van der"
)
QUANTITY = words(
    "quantity qty count quantité cantidad quantità quantidade hoeveelheid ilość kvantitet miktar количество 数量 كمية"
    " الكمية Menge"
)
# Of systems and shipments only: `loaded at`, `cpu percent`; of a hospital they would date or measure a visit.
OF_SYSTEMS = words("at date time timestamp ts status version percent usage bytes kb mb gb count total batch")

# How values begin that name a medical unit, a condition or a drug: a ward, a shop or a product called so tells what
# someone has. Specialties in fifteen languages, conditions and drugs in English; `~` is a blank or nothing.
CONDITION = words(
    "surgery surgical oncolog onkolog cardiol cardiac kardiol psychiatr psychol psychother maternity obstetr"
    " gynaec gynec gynak gynaek ginec ginek jinekol geburtshilfe kreiss entbindung kreissaal maternite paediatr"
    " pediatr pädiatr kinderheilkunde geriatr neurol nevrol urolog dermatol nephrol nefrol haematol hematol"
    " rheumatol reumatol pulmonol endocrinol endokrinol gastroent orthop ortoped ophthalm oftalm okulist radiolog"
    " radiother trauma palliat hospice hospiz dialys rehab detox addict sucht substance methadone naloxone"
    " buprenorphine abortion fertility ivf prenatal antenatal stroke~unit intensive~care icu nicu burns~unit"
    " chirurg cirurg cirug chirurgi kirurg cerrahi internal~medicine innere~medizin medicina~interna hiv aids"
    " hepatit tubercul cancer krebs tumor tumour leukaem leukem diabet asthma asma epilep dementia alzheimer"
    " parkinson schizo depress anxiety insulin metformin warfarin chemother dialysis contracept pregnan"
    " antidepress antipsychotic opioid morphine fentanyl oxycodon tamoxifen хирург кардиол онколог психиатр"
    " педиатр гинекол неврол роддом нарколог акушер"
    " 外科 内科 儿科 小児科 精神科 产科 産科 妇科 婦人科 肿瘤 腫瘍 眼科 皮肤科 皮膚科 急诊 救急"
    " الجراحة القلب الأطفال الأورام النفسية الولادة सर्जरी हृदय प्रसूति मनोरोग शल्य"
)

# Names under which values decide, if all other words are harmless.
UNIT = words(
    "unit units uom code type value Einheit Mengeneinheit Maßeinheit unité unidad unità unidade eenheid jednostka enhet"
    " birim единица 单位 単位 وحدة इकाई"
)
STATE = words("status state code type value estado stato статус 状态")
ENVIRONMENT = words("environment env")
BESIDE_VALUES = words("measure order delivery tracking mesure medida misura измерения القياس")
